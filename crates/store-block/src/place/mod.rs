//! Where there is room on the devices, what shares it, and how memory is shared.

pub mod alloc;
pub mod budget;
pub mod gaps;
pub mod give_back;
pub mod maxima;
pub mod pace;
pub mod refs;
pub mod room;
pub mod trim;
