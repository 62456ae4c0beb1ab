//! Many conversions in one call.

use tilewright::run::{Item, execute_batch};

use crate::border::{Extent, Failure, Out, Result, call, check_writes_apart, slice, slice_out};
use crate::handle::inner;
use crate::types::*;
use crate::{check_length, executor};

/// Runs many conversions, each as tw_plan_execute would, with the same bytes. Small tensors are converted whole, many by
/// one task, so that thousands of them cost little more than their conversion; large ones are split among the threads, one
/// after the other. Conversions may share plans and sources. With `executor` NULL everything is done on the calling thread.
/// `failed` may be NULL; where a single conversion is at fault, its number goes there, of several that of the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_execute_batch(
    conversions: *const tw_conversion,
    count: usize,
    executor: *const tw_executor,
    failed: *mut u64,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let failed = if failed.is_null() { None } else { Some(Out::new(failed, "failed")?) };
        let blame = |item: usize, failure: Failure| {
            if let Some(failed) = &failed {
                failed.set(item as u64);
            }
            failure.of(format_args!("conversion {item}"))
        };
        let conversions = slice(conversions, count, "conversions")?;
        check_memory(conversions, failed.as_ref().map(Out::extent))?;
        let items = conversions.iter().enumerate().map(|(i, c)| item(c).map_err(|failure| blame(i, failure)));
        let mut items = items.collect::<Result<Vec<_>>>()?;
        let mut outcome = Ok(());
        executor::with(executor, |executor| {
            outcome = execute_batch(executor, &mut items);
            Ok(())
        })?;
        outcome.map_err(|error| blame(error.item, error.error.into()))
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// An error unless what is written lies apart from all else.
fn check_memory(conversions: &[tw_conversion], failed: Option<Extent<'_>>) -> Result<()> {
    let list = Extent::new("conversions", conversions.as_ptr(), conversions.len());
    let source = |c: &tw_conversion| Extent::new("a source", c.source.cast::<u8>(), c.source_length);
    let destination =
        |c: &tw_conversion| Extent::new("a destination", c.destination.cast::<u8>(), c.destination_length);
    let mut written: Vec<Extent<'_>> = conversions.iter().map(destination).chain(failed).collect();
    check_writes_apart(&mut written, conversions.iter().map(source).chain([list]))
}

/// What the library makes of a conversion.
///
/// # Safety
/// The conversion is as the header says, and nothing else uses its destination during `'a`.
unsafe fn item<'a>(conversion: &tw_conversion) -> Result<Item<'a>> {
    let &tw_conversion { plan, source, source_length, destination, destination_length } = conversion;
    // SAFETY: passed on.
    unsafe {
        let plan = &inner(plan)?.plan;
        check_length("source", source_length, plan.source_bytes())?;
        check_length("destination", destination_length, plan.destination_bytes())?;
        let source = slice(source.cast::<u8>(), source_length, "source")?;
        let destination = slice_out(destination.cast::<u8>(), destination_length, "destination")?;
        Ok(Item::uninit(plan, source, destination))
    }
}
