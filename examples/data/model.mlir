// Two layers as tt-mlir prints them after it has chosen layouts: made by hand, for the examples of README.md.
#dram = #ttnn.buffer_type<dram>
#l1 = #ttnn.buffer_type<l1>
#system_memory = #ttnn.buffer_type<system_memory>
#ttnn_layout = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<30x64xf32, #system_memory>>
#ttnn_layout1 = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x2x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
#ttnn_layout2 = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x3x!ttcore.tile<32x32, bfp_bf8>, #dram>, <interleaved>>
#ttnn_layout3 = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x3>, memref<1x1x!ttcore.tile<32x32, bf16>, #l1>, <width_sharded>>
#ttnn_layout4 = #ttnn.ttnn_layout<(d0) -> (0, d0), <1x1>, memref<1x3x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
module {
  func.func @layer(%x: tensor<30x64xf32, #ttnn_layout>, %w: tensor<64x96xf32, #ttnn_layout2>, %b: tensor<96xf32, #ttnn_layout4>) -> tensor<30x96xf32, #ttnn_layout3> {
    %0 = "ttnn.to_layout"(%x) : (tensor<30x64xf32, #ttnn_layout>) -> tensor<30x64xf32, #ttnn_layout1>
    %1 = "ttnn.matmul"(%0, %w) : (tensor<30x64xf32, #ttnn_layout1>, tensor<64x96xf32, #ttnn_layout2>) -> tensor<30x96xf32, #ttnn_layout3>
    %2 = "ttnn.add"(%1, %b) : (tensor<30x96xf32, #ttnn_layout3>, tensor<96xf32, #ttnn_layout4>) -> tensor<30x96xf32, #ttnn_layout3>
    return %2 : tensor<30x96xf32, #ttnn_layout3>
  }
}
