package proxy

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

var errNoPipe = errors.New("no pipe to be had")

// pipe is a kernel buffer between two sockets.
type pipe struct{ r, w int }

// pipes holds empty pipes for the next use, few of them: what is not in use is memory and two descriptors.
var pipes struct {
	sync.Mutex
	free []*pipe
}

const maxFreePipes = 8

func takePipe() (*pipe, error) {
	pipes.Lock()
	if n := len(pipes.free); n > 0 {
		p := pipes.free[n-1]
		pipes.free = pipes.free[:n-1]
		pipes.Unlock()
		return p, nil
	}
	pipes.Unlock()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	// A refusal (the user's quota of pipe pages is used up) leaves a smaller pipe, which works as well.
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize)
	return &pipe{r: fds[0], w: fds[1]}, nil
}

// release gives the pipe back if it is empty, and closes it if it is not or enough are free.
func (p *pipe) release(empty bool) {
	if empty {
		pipes.Lock()
		if len(pipes.free) < maxFreePipes {
			pipes.free = append(pipes.free, p)
			pipes.Unlock()
			return
		}
		pipes.Unlock()
	}
	_ = unix.Close(p.r)
	_ = unix.Close(p.w)
}
