//! Linux errno numbers that Ceph answers with, positive. Used only where a message is answered (and by object classes, whose
//! return values are part of the protocol).

macro_rules! errno {
    ($($name:ident = $n:literal,)*) => { $( pub const $name: i32 = $n; )* };
}
errno! {
    EPERM = 1, ENOENT = 2, EINTR = 4, EIO = 5, ENXIO = 6, E2BIG = 7, ENOEXEC = 8, EBADF = 9, EAGAIN = 11, ENOMEM = 12, EACCES = 13,
    EBUSY = 16, EEXIST = 17, EXDEV = 18, ENODEV = 19, ENOTDIR = 20, EISDIR = 21, EINVAL = 22, EFBIG = 27, ENOSPC = 28,
    EROFS = 30, EDOM = 33, ERANGE = 34, EDEADLK = 35, ENAMETOOLONG = 36, ENOSYS = 38, ENOTEMPTY = 39, ENOMSG = 42, ENODATA = 61, ENOLINK = 67,
    EOVERFLOW = 75, EBADMSG = 74, EILSEQ = 84, EOPNOTSUPP = 95, ESTALE = 116, EDQUOT = 122, ECANCELED = 125, ETIMEDOUT = 110,
    EMSGSIZE = 90, ENOTCONN = 107, EALREADY = 114, EINPROGRESS = 115, EOLDSNAPC = 85, EBLOCKLISTED = 108, EUSERS = 87, EFAULT = 14,
}
