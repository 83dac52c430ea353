//! The engine's only `unsafe`: thin wrappers over Linux calls that the standard library and socket2 lack.
//! Every wrapper checks the return value and keeps its own invariants; nothing here decides anything.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut spec = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `spec` is a valid, writable timespec; the clocks used here exist on every Linux we build for.
    unsafe { libc::clock_gettime(clock, &mut spec) };
    spec.tv_sec * 1_000_000_000 + spec.tv_nsec
}

/// CLOCK_MONOTONIC, ns.
pub fn monotonic_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME, ns since the epoch (the clock of the kernel's receive stamps).
pub fn realtime_ns() -> i64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> i64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The scheduler's file on the calling thread; it tells of that thread whoever reads it. Opened by the thread itself: in a PID
/// namespace below that of /proc, its number is another there.
pub fn own_schedstat() -> io::Result<std::fs::File> {
    std::fs::File::open("/proc/thread-self/schedstat")
}

/// (time on a CPU, time spent waiting for one), ns, of the thread that opened the file; `None` where it has ended.
pub fn read_schedstat(file: &std::fs::File) -> Option<(i64, i64)> {
    let mut text = [0u8; 96];
    let length = std::os::unix::fs::FileExt::read_at(file, &mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??))
}

/// Sleeps until CLOCK_MONOTONIC reaches `at_ns`; a signal may end the sleep early.
pub fn sleep_until(at_ns: i64) {
    let spec = libc::timespec {
        tv_sec: at_ns.max(0) / 1_000_000_000,
        tv_nsec: at_ns.max(0) % 1_000_000_000,
    };
    // SAFETY: reads `spec`, which lives through the call; the remainder is not asked for.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &spec,
            std::ptr::null_mut(),
        )
    };
}

/// Lets timers of the calling thread fire without being grouped (PR_SET_TIMERSLACK, 1 ns).
pub fn sharpen_timers() -> io::Result<()> {
    // SAFETY: prctl with PR_SET_TIMERSLACK takes one unsigned long and touches no memory of ours.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) }).map(drop)
}

/// The kernel's `struct sched_attr`, as of its first version (48 bytes).
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Asks the scheduler for slices of 0.1 ms in place of about 3 ms for the calling thread: it then runs soon after it wakes, beside whatever
/// is running, and its fair share stays the same (EEVDF's custom slice, Linux 6.12; before that the kernel pays no heed).
pub fn shorten_slice() -> io::Result<()> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes of a live struct, then reads as many of it; 0 is the calling thread.
    unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        attr.runtime_ns = 100_000;
        attr.size = size;
        if libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Pins the calling thread to one CPU.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: a zeroed cpu_set_t is a valid empty set; `cpu` is below CPU_SETSIZE.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        check(libc::sched_setaffinity(
            0,
            size_of::<libc::cpu_set_t>(),
            &set,
        ))
        .map(drop)
    }
}

/// An eventfd: a flag that wakes an epoll or poll.
pub struct Bell(OwnedFd);

impl Bell {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a fresh descriptor is owned by nobody else.
        unsafe {
            check(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))
                .map(|fd| Bell(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: writes 8 bytes from a live array. A full counter (EAGAIN) means it rings already.
        unsafe { libc::write(self.fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Silences the bell, so that the next poll waits again.
    pub fn hush(&self) {
        let mut count = [0u8; 8];
        // SAFETY: reads at most 8 bytes into a live array; EAGAIN means it was silent.
        unsafe { libc::read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waits until one of two descriptors is readable (or at end of file) or the time is over; -1 = no descriptor.
pub fn wait_either(first: RawFd, second: RawFd, timeout_ms: i32) -> io::Result<(bool, bool)> {
    let mut fds = [first, second].map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: `fds` is a live array of two; negative descriptors are ignored by poll.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), 2, timeout_ms) }) {
        Ok(_) => Ok((fds[0].revents != 0, fds[1].revents != 0)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok((false, false)),
        Err(error) => Err(error),
    }
}

/// What epoll reported for one token.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub token: u64,
    /// EPOLLHUP, EPOLLERR or EPOLLRDHUP: the stream ends after what can still be read.
    pub hangup: bool,
    /// EPOLLIN: there are bytes, or the stream's end, to read.
    pub readable: bool,
}

/// A reusable buffer of events.
pub struct Events {
    raw: Vec<libc::epoll_event>,
    len: usize,
}

impl Events {
    pub fn with_capacity(capacity: usize) -> Self {
        Events {
            raw: vec![libc::epoll_event { events: 0, u64: 0 }; capacity],
            len: 0,
        }
    }

    /// How many events the last wait gave.
    pub fn count(&self) -> usize {
        self.len
    }

    pub fn get(&self, at: usize) -> Event {
        let raw = self.raw[..self.len][at];
        let ends = (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) as u32;
        Event {
            token: raw.u64,
            hangup: raw.events & ends != 0,
            readable: raw.events & libc::EPOLLIN as u32 != 0,
        }
    }
}

/// An edge-triggered epoll.
pub struct Epoll(OwnedFd);

static PWAIT2_MISSING: AtomicBool = AtomicBool::new(false);

impl Epoll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a fresh descriptor is owned by nobody else.
        unsafe {
            check(libc::epoll_create1(libc::EPOLL_CLOEXEC))
                .map(|fd| Epoll(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Registers once, for both directions; closing the descriptor unregisters it.
    pub fn add(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let interest = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: interest as u32,
            u64: token,
        };
        // SAFETY: `event` lives through the call; the kernel copies it.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) })
            .map(drop)
    }

    /// Waits for events; `None` waits for ever, 0 or less polls. A signal ends the wait with no event.
    pub fn wait(&self, events: &mut Events, timeout_ns: Option<i64>) -> io::Result<()> {
        events.len = 0;
        let result = self.wait_raw(&mut events.raw, timeout_ns.map(|ns| ns.max(0)));
        match check(result) {
            Ok(count) => {
                events.len = count as usize;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            // Missing before Linux 5.11, or forbidden: filters of older containers refuse what they do not know with EPERM.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                PWAIT2_MISSING.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn wait_raw(&self, raw: &mut [libc::epoll_event], timeout_ns: Option<i64>) -> libc::c_int {
        let fd = self.0.as_raw_fd();
        if PWAIT2_MISSING.load(Ordering::Relaxed) {
            // Before Linux 5.11: whole milliseconds, rounded down; the last part of one is polled.
            let timeout_ms =
                timeout_ns.map_or(-1, |ns| (ns / 1_000_000).min(i32::MAX as i64) as i32);
            // SAFETY: the kernel writes at most `raw.len()` events into `raw`.
            return unsafe { libc::epoll_wait(fd, raw.as_mut_ptr(), raw.len() as i32, timeout_ms) };
        }
        let spec = timeout_ns.map(|ns| libc::timespec {
            tv_sec: ns / 1_000_000_000,
            tv_nsec: ns % 1_000_000_000,
        });
        let spec_ptr = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the kernel writes at most `raw.len()` events into `raw` and reads `spec`, which lives on;
        // a null signal mask leaves the mask alone.
        unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                fd,
                raw.as_mut_ptr(),
                raw.len() as libc::c_int,
                spec_ptr,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            ) as libc::c_int
        }
    }
}

/// Lets `connect()` choose the local port of a socket that is bound to an address and port 0 (IP_BIND_ADDRESS_NO_PORT).
pub fn choose_port_late(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: passes a live int and its size.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            std::ptr::from_ref(&on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Asks for the kernel's software receive stamps on a socket (read with [`receive_stamped`]).
pub fn stamp_receives(socket: BorrowedFd<'_>) -> io::Result<()> {
    let flags: libc::c_uint = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    // SAFETY: passes a live unsigned int and its size.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            std::ptr::from_ref(&flags).cast(),
            size_of::<libc::c_uint>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Reads like `read`, and returns the kernel's receive stamp (CLOCK_REALTIME ns) of the last byte where there is one.
pub fn receive_stamped(socket: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
    let mut control = [0u64; 32];
    let mut part = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    // SAFETY: a zeroed msghdr is valid; its pointers refer to `part` and `control`, which outlive the calls,
    // and the CMSG walk stays inside the length that the kernel wrote.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let got = libc::recvmsg(socket.as_raw_fd(), &mut message, 0);
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut stamp = None;
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            let (level, kind) = ((*header).cmsg_level, (*header).cmsg_type);
            if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPING {
                let spec: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                if spec.tv_sec != 0 {
                    stamp = Some(spec.tv_sec * 1_000_000_000 + spec.tv_nsec);
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
        Ok((got as usize, stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the calling thread's calls of this number fail with EPERM, as the filters of older containers do.
    fn forbid(call: libc::c_long) {
        let step = |code, jf, k| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf,
            k,
        };
        let mut filter = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
            step(
                libc::BPF_RET,
                0,
                libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            ),
            step(libc::BPF_RET, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: the kernel copies the live program; both calls concern the calling thread alone.
        unsafe {
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)).unwrap();
            let mode = libc::SECCOMP_MODE_FILTER;
            check(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program)).unwrap();
        }
    }

    #[test]
    fn where_a_filter_forbids_the_newer_wait_the_older_one_is_used() {
        let waits = std::thread::spawn(|| {
            forbid(libc::SYS_epoll_pwait2);
            let (epoll, mut events) = (Epoll::new().unwrap(), Events::with_capacity(1));
            let bell = Bell::new().unwrap();
            epoll.add(bell.fd(), 7).unwrap();
            bell.ring();
            // The first wait finds out.
            (0..2).find_map(|_| match epoll.wait(&mut events, None) {
                Ok(()) if events.count() == 0 => None,
                waited => Some(waited.map(|()| events.get(0).token)),
            })
        });
        assert_eq!(waits.join().unwrap().unwrap().unwrap(), 7);
    }
}
