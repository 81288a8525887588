package sandbox

import (
	"context"
	"time"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// Keep sets what the pool holds of the files of all running scripts and programs together, in bytes.
func (p *Pool) Keep(most int64) { p.kept = vfs.NewBudget(most) }

// HoldFrames takes the memory for large messages until let is called. Awaited reports whether a message waits for it.
func (p *Pool) HoldFrames() (awaited func() bool, let func()) {
	const most = maxFrames - 1
	if !p.frames.TryAcquire(most) {
		panic("large messages are arriving")
	}
	awaited = func() bool {
		free := p.frames.TryAcquire(1) // not if something waits
		if free {
			p.frames.Release(1)
		}
		return !free
	}
	return awaited, func() { p.frames.Release(most) }
}

// Deaf is a child that calls two programs and receives none of their answers while it prints, for longer than its parent waits
// for that. Then its script ends.
func Deaf(ctx context.Context, env childproc.Env) int {
	b, err := env.Receive(ctx)
	if err != nil {
		return 0
	}
	job, err := decode(b)
	if err != nil {
		return 1
	}
	tell := func(m message) bool {
		m.ID = job.ID
		b, err := encode(m)
		return err == nil && env.Report(b) == nil
	}
	for id := range int64(2) {
		if !tell(message{Call: &callMessage{ID: id + 1, All: true, Args: []string{"ask"}, Dir: "/"}}) {
			return 1
		}
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < 3*receipt; <-tick.C {
		if !tell(message{Output: &outputMessage{Text: []byte(".")}}) {
			return 1
		}
	}
	// This is more than a pipe has room for, so the child receives again only when its parent has read all that was printed before.
	if !tell(message{Output: &outputMessage{Text: make([]byte, 1<<20)}}) || !tell(message{End: &endMessage{Busy: true}}) {
		return 1
	}
	for {
		if _, err := env.Receive(ctx); err != nil {
			return 0
		}
	}
}

// Greedy is a child that asks for the terminal's input many times without waiting, and ends when the input arrives.
func Greedy(ctx context.Context, env childproc.Env) int {
	for {
		b, err := env.Receive(ctx)
		if err != nil {
			return 0
		}
		m, err := decode(b)
		if err != nil {
			return 1
		}
		var out []message
		switch {
		case m.Job != nil:
			for range 500 {
				out = append(out, message{ID: m.ID, Want: true})
			}
			out = append(out, message{ID: m.ID, Output: &outputMessage{Text: []byte("asked\n")}})
		case m.Input != nil:
			out = append(out, message{ID: m.ID, End: &endMessage{}})
		}
		for _, o := range out {
			if b, err = encode(o); err != nil || env.Report(b) != nil {
				return 1
			}
		}
	}
}
