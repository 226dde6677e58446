package proxy

import (
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lot is where directions of idle tunnels wait for bytes without a goroutine each: their sockets are in one epoll set of
// ours, beside the runtime's. It is one for the process because it is a matter of the process's memory, like pipes.
var lot = parkingLot{spots: map[uint64]*direction{}}

type parkingLot struct {
	once sync.Once
	fd   int
	err  error

	mu    sync.Mutex
	spots map[uint64]*direction
	last  uint64 // the number of the newest spot

	// Of tidy, which one goroutine calls.
	seen, tidied uint64
	tidiedAt     time.Time
}

// open makes the epoll set and the goroutine that waits on it, at first use.
func (l *parkingLot) open() {
	if l.fd, l.err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); l.err != nil {
		return
	}
	if l.err = unix.SetNonblock(l.fd, true); l.err == nil { // the runtime polls only what does not block
		go l.watch(os.NewFile(uintptr(l.fd), "epoll"))
	}
}

// prepare opens the set, so that it does not count as the first tunnel's.
func (l *parkingLot) prepare() { l.once.Do(l.open) }

// A crowd that has parked leaves behind the stacks and buffers with which it came. tidy gives them back to the system once
// nobody else is coming: on a node with many sidecars what is idle should be small. It is called every now and then.
func (l *parkingLot) tidy(now time.Time) {
	const crowd, pause = 512, 10 * time.Second
	l.mu.Lock()
	calm := l.last == l.seen
	l.seen = l.last
	due := calm && l.last-l.tidied >= crowd && now.Sub(l.tidiedAt) >= pause
	if due {
		l.tidied, l.tidiedAt = l.last, now
	}
	l.mu.Unlock()
	if due {
		debug.FreeOSMemory()
	}
}

// park takes the direction over from its goroutine, which must not touch it afterwards if true is returned.
func (l *parkingLot) park(d *direction) bool {
	if l.once.Do(l.open); l.err != nil {
		d.state.Store(running)
		return false
	}
	l.mu.Lock()
	l.last++
	spot := l.last
	l.spots[spot], d.spot = d, spot
	d.state.Store(parked)
	l.mu.Unlock()
	var added error
	err := d.in.Control(func(fd uintptr) {
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(spot), Pad: int32(spot >> 32)}
		if added = unix.EpollCtl(l.fd, unix.EPOLL_CTL_ADD, int(fd), &e); added == unix.EEXIST {
			added = unix.EpollCtl(l.fd, unix.EPOLL_CTL_MOD, int(fd), &e)
		}
	})
	if err == nil && added == nil {
		return true
	}
	// Closed meanwhile, or no room in the set: stay on the goroutine, unless somebody has driven it out already.
	return l.leave(spot) == nil
}

// leave empties a spot and returns who was there. The direction runs again from here on.
func (l *parkingLot) leave(spot uint64) *direction {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.spots[spot]
	if d != nil {
		delete(l.spots, spot)
		d.spot = 0
		d.state.Store(running)
	}
	return d
}

// wake drives out a direction that is parked.
func (l *parkingLot) wake(d *direction) {
	l.mu.Lock()
	spot := d.spot
	l.mu.Unlock()
	if spot != 0 && l.leave(spot) != nil {
		go d.run()
	}
}

// watch drives out whoever has something to read. A spot that was left meanwhile is nobody's any more; its number is not
// used again.
func (l *parkingLot) watch(set *os.File) {
	raw, err := set.SyscallConn()
	if err != nil {
		return
	}
	events := make([]unix.EpollEvent, 128)
	for {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, _ = unix.EpollWait(int(fd), events, 0)
			return n > 0
		})
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			if d := l.leave(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32); d != nil {
				go d.run()
			}
		}
	}
}
