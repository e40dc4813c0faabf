//! A region: two buffers, PAYLOAD and COUNTER, over which a host and a running task talk while the task runs.
//!
//! Here is what is the same on both sides and in every kind of memory: the six scalars by which a task is told of a region
//! ([`RegionView`]), the rule for the two descriptors by which a process attaches ([`RegionParts`]), and the counters
//! ([`Region`]). How bytes are reached is behind [`RegionAccess`]; how time passes is behind [`Clock`].

mod access;
mod clock;
mod counters;
mod parts;
mod view;

pub use access::{AccessError, Place, RegionAccess};
pub use clock::{Clock, Patience, Watch};
pub use counters::{Comparison, Notification, Region, RegionError, Seen};
pub use parts::{PartsError, RegionParts};
pub(crate) use view::Version;
pub use view::{Part, REGION_MAGIC, REGION_MAJOR, REGION_MINOR, RegionView, RegionViewError};
