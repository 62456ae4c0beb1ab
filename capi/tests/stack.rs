//! What the header says of the stack that executing a plan needs.

use std::ptr::{null, null_mut};

use tilewright_capi::*;

/// As the header says.
const STACK: usize = 256 << 10;

fn text(text: &str) -> tw_layout {
    let none = tw_string { data: null(), length: 0 };
    tw_layout {
        struct_size: size_of::<tw_layout>() as u32,
        reserved: 0,
        text: tw_string { data: text.as_ptr().cast(), length: text.len() },
        strided: null(),
        ttnn: null(),
        metal: null(),
        spyre: null(),
        device: none,
        mesh: none,
        pad_value: null(),
    }
}

/// Compiles a plan, executes it on a thread with that stack and no more, and frees it.
fn execute(shape: [u64; 2], from: &str, to: &str, flags: u32, store: u32) {
    let (source, destination) = (text(from), text(to));
    let request = tw_request {
        struct_size: size_of::<tw_request>() as u32,
        dtype: TW_F32,
        shape: shape.as_ptr(),
        rank: 2,
        source: &source,
        destination: &destination,
        rounding: TW_ROUND_HOST,
        flags,
        isa: TW_ISA_BEST,
        store,
    };
    let mut plan = null_mut();
    // SAFETY: every pointer is NULL or that of a value of this function.
    assert_eq!(unsafe { tw_plan_compile(&request, &mut plan, null_mut()) }, TW_OK, "{from} to {to}");
    // SAFETY: a struct of numbers.
    let mut info: tw_plan_info = unsafe { std::mem::zeroed() };
    info.struct_size = size_of::<tw_plan_info>() as u32;
    // SAFETY: as above.
    assert_eq!(unsafe { tw_plan_query(plan, &mut info, null_mut()) }, TW_OK);
    let source = vec![0x3C_u8; info.source_bytes as usize];
    let mut destination = vec![0_u8; info.destination_bytes as usize];
    let at = plan.expose_provenance();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let plan = std::ptr::with_exposed_provenance::<tw_plan>(at);
        // SAFETY: the plan lives until this thread has ended, and the memory is its own.
        unsafe {
            tw_plan_execute(
                plan,
                source.as_ptr().cast(),
                source.len(),
                destination.as_mut_ptr().cast(),
                destination.len(),
                null(),
                null_mut(),
            )
        }
    });
    assert_eq!(thread.unwrap().join().unwrap(), TW_OK, "{from} to {to}");
    // SAFETY: nothing uses it any more.
    assert_eq!(unsafe { tw_plan_free(plan) }, TW_OK);
}

#[test]
fn executing_keeps_to_the_stack_that_the_header_names() {
    let shapes = [[1024, 1024], [1021, 1027]];
    for shape in shapes {
        let [rows, columns] = shape;
        let dense = format!("memref<{rows}x{columns}xf32>");
        let turned = format!("memref<{rows}x{columns}xf32, strided<[1, {rows}]>>");
        let tiles = ["float32", "bfloat16", "bfloat8_b", "bfloat4_b", "mxfp8_e4m3", "mxint2"]
            .map(|dtype| format!("ttnn(dtype={dtype}, layout=TILE)"));
        let banks = ["float32", "bfloat16", "bfloat8_b"].map(|dtype| {
            format!("ttnn(dtype={dtype}, layout=TILE, memory=INTERLEAVED, banks=12, alignment=64)")
        });
        for store in [TW_STORE_CACHED, TW_STORE_STREAMED] {
            tiles.iter().for_each(|tiles| execute(shape, &dense, tiles, 0, store));
            execute(shape, &dense, &tiles[2], TW_SEARCH, store);
            tiles.iter().for_each(|tiles| execute(shape, &turned, tiles, 0, store));
            tiles.iter().for_each(|tiles| execute(shape, tiles, &turned, 0, store));
            tiles.iter().for_each(|to| execute(shape, &tiles[2], to, 0, store));
            for banks in &banks {
                [&dense, &turned, &tiles[0], &tiles[2]].into_iter().for_each(|others| {
                    execute(shape, others, banks, 0, store);
                    execute(shape, banks, others, 0, store);
                });
            }
            execute(shape, &dense, &turned, 0, store);
        }
    }
}
