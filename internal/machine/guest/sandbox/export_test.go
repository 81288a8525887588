package sandbox

import (
	"context"

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
