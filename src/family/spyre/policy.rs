//! Which layout the runtime's loader gives to each parameter of a model.

use super::check::format_of;
use super::descriptor::{Arrangement, Constructor, Explicit, SpyreLayout};
use crate::dtype::DType;
use crate::error::Result;
use crate::family::{Tensor, volume};

/// The module that a parameter belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Module {
    /// A linear map; its weight is [outputs, inputs].
    Linear,
    /// A table of vectors; its weight is [rows, length].
    Embedding,
    /// The experts of a mixture; their weight is `[experts, channels, features]`, their scales are `[experts]`.
    Experts,
    /// Any other.
    Other,
}

/// How a parameter is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Loading {
    /// The layout on the device.
    pub layout: SpyreLayout,
    /// Whether it is that of the transposed parameter: the loader hands over `parameter.t()`.
    pub transposed: bool,
}

/// The layout that the loader gives to a parameter, by its name, its module, its shape and its type.
///
/// The first rule that fits: an 8-bit weight of a linear map is transposed and arranged as `QFP8WT`; a two-dimensional
/// weight of a linear map has its inputs along the rows of sticks (`dim_order` [1, 0]); a two-dimensional table whose
/// vectors are whole sticks keeps each vector together; so does a mixture of experts with its features, while its scales
/// fill a stick each; the rest is laid out by default. Names count by their last part: `weight`, or one that ends with
/// `scale` or `scales`. (torch-spyre's loader of September 2026.)
///
/// ```
/// use tilewright::DType;
/// use tilewright::family::Tensor;
/// use tilewright::family::spyre::{Module, load_parameter};
///
/// let table = Tensor { shape: vec![1000, 256], dtype: DType::F16 };
/// let loading = load_parameter("model.embed_tokens.weight", Module::Embedding, &table)?;
/// assert_eq!(
///     loading.layout.to_string(),
///     "SpyreTensorLayout(device_size=[1000, 4, 64], stride_map=[256, 64, 1], device_dtype=DataFormats.SEN169_FP16)"
/// );
/// # Ok::<(), tilewright::Error>(())
/// ```
///
/// # Errors
/// For an element type without a format on the device, and where sizes overflow.
pub fn load_parameter(name: &str, module: Module, parameter: &Tensor) -> Result<Loading> {
    let Tensor { shape, dtype } = parameter;
    let format = format_of(*dtype)?;
    let sticks = format.elements_per_stick().unwrap_or(1);
    volume("the parameter", shape.iter().copied())?;
    let part = name.rsplit('.').next().unwrap_or(name);
    let (weight, scale) = (part == "weight", part.ends_with("scale") || part.ends_with("scales"));
    let spelled = |size: Vec<u64>, strides: Vec<i64>| {
        Explicit::new(size).with_stride_map(strides).with_dtype(format).into()
    };
    // Inside of the size of the parameter, which was checked.
    let stride = |n: u64| n as i64;
    let mut transposed = false;
    let layout = match (module, &shape[..]) {
        (Module::Linear, &[n, k]) if weight && *dtype == DType::F8E4M3 => {
            transposed = true;
            Constructor::new(vec![k, n], *dtype).with_arrangement(Arrangement::Qfp8Wt).into()
        }
        (Module::Linear, &[_, _]) if weight => {
            Constructor::new(shape.clone(), *dtype).with_dim_order(vec![Some(1), Some(0)]).into()
        }
        (Module::Embedding, &[rows, length]) if weight && length % sticks == 0 => {
            spelled(vec![rows, length / sticks, sticks], vec![stride(length), stride(sticks), 1])
        }
        (Module::Experts, &[experts, channels, features]) if !scale && features % sticks == 0 => {
            let size = vec![experts, channels, features / sticks, sticks];
            spelled(size, vec![stride(channels * features), stride(features), stride(sticks), 1])
        }
        // Each scale fills its stick.
        (Module::Experts, &[experts]) if scale => spelled(vec![experts, 1, sticks], vec![1, -1, 0]),
        _ => Constructor::new(shape.clone(), *dtype).into(),
    };
    Ok(Loading { layout, transposed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Family, Placement};

    /// Name, module, shape and type of a parameter; the layout, and whether it is that of the transposed parameter.
    type Rule<'a> = (&'a str, Module, &'a [u64], DType, &'a str, bool);

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules: &[Rule] = &[
            (
                "q.weight",
                Module::Linear,
                &[128, 256],
                DType::F8E4M3,
                "SpyreTensorLayout((256, 128), torch.float8_e4m3fn, element_arrangement=ElementArrangement.QFP8WT)",
                true,
            ),
            (
                "q.weight",
                Module::Linear,
                &[128, 256],
                DType::F16,
                "SpyreTensorLayout((128, 256), torch.float16, [1, 0])",
                false,
            ),
            ("q.bias", Module::Linear, &[128], DType::F16, "SpyreTensorLayout((128,), torch.float16)", false),
            (
                "e.weight",
                Module::Embedding,
                &[1000, 256],
                DType::F32,
                "SpyreTensorLayout(device_size=[1000, 8, 32], stride_map=[256, 32, 1], device_dtype=DataFormats.IEEE_FP32)",
                false,
            ),
            (
                "e.weight",
                Module::Embedding,
                &[1000, 250],
                DType::F16,
                "SpyreTensorLayout((1000, 250), torch.float16)",
                false,
            ),
            (
                "mlp.experts.w13.weight",
                Module::Experts,
                &[3, 64, 128],
                DType::F16,
                "SpyreTensorLayout(device_size=[3, 64, 2, 64], stride_map=[8192, 128, 64, 1], device_dtype=DataFormats.SEN169_FP16)",
                false,
            ),
            (
                "mlp.experts.w13_scale",
                Module::Experts,
                &[3],
                DType::F16,
                "SpyreTensorLayout(device_size=[3, 1, 64], stride_map=[1, -1, 0], device_dtype=DataFormats.SEN169_FP16)",
                false,
            ),
            (
                "norm.weight",
                Module::Other,
                &[256],
                DType::F16,
                "SpyreTensorLayout((256,), torch.float16)",
                false,
            ),
        ];
        for &(name, module, shape, dtype, text, transposed) in rules {
            let mut tensor = Tensor { shape: shape.to_vec(), dtype };
            let loading = load_parameter(name, module, &tensor).unwrap();
            assert_eq!(
                (loading.layout.to_string().as_str(), loading.transposed),
                (text, transposed),
                "{name}"
            );
            if transposed {
                tensor.shape.reverse();
            }
            loading.layout.to_layout(&tensor, &Placement::default()).unwrap();
        }
        let huge = Tensor { shape: vec![1 << 40, 1 << 40], dtype: DType::F16 };
        assert!(load_parameter("weight", Module::Linear, &huge).is_err());
        let double = Tensor { shape: vec![2], dtype: DType::F64 };
        assert!(load_parameter("weight", Module::Linear, &double).is_err());
    }
}
