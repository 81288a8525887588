package balancer

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	// flowIdle is how long a flow of UDP lasts without a datagram.
	// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/network-load-balancers.html#connection-idle-timeout
	flowIdle = 120 * time.Second
	// maxFlows bounds the flows at once, maxFlowsOf those of one sender, and maxWaiting the datagrams of a flow that wait for
	// its target. What is beyond is dropped.
	maxFlows   = 10_000
	maxFlowsOf = 4096
	maxWaiting = 4
	// MaxDatagram is the largest datagram that a network with jumbo frames carries.
	MaxDatagram = 9001
)

// Flows are the flows of UDP that arrive at one place. Each goes to one target for as long as it lasts.
type Flows[K comparable] struct {
	ctx context.Context
	do  func(func())
	// sender says whose a flow is.
	sender func(K) string
	mu     sync.Mutex
	all    map[K]*flow
	of     map[string]int // flows by sender
}

type flow struct {
	waiting chan []byte
}

// NewFlows returns flows that end with ctx. do runs their goroutines, and sender says whose a flow is.
func NewFlows[K comparable](ctx context.Context, do func(func()), sender func(K) string) *Flows[K] {
	return &Flows[K]{ctx: ctx, do: do, sender: sender, all: map[K]*flow{}, of: map[string]int{}}
}

// Send sends a datagram to the target of its flow, which dial returns for a new one. reply is called with the datagrams that
// come back. The function keeps neither.
func (f *Flows[K]) Send(key K, data []byte, dial func(ctx context.Context) (net.Conn, error), reply func([]byte)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := f.all[key]
	if to == nil {
		from := f.sender(key)
		if len(f.all) >= maxFlows || f.of[from] >= maxFlowsOf || f.ctx.Err() != nil {
			return
		}
		f.of[from]++
		to = &flow{waiting: make(chan []byte, maxWaiting)}
		f.all[key] = to
		f.do(func() {
			f.run(to, dial, reply)
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.all, key)
			if f.of[from]--; f.of[from] == 0 {
				delete(f.of, from)
			}
		})
	}
	select {
	case to.waiting <- append([]byte(nil), data...):
	default:
	}
}

// run forwards the datagrams of a flow until it is idle, or the target is gone.
func (f *Flows[K]) run(to *flow, dial func(ctx context.Context) (net.Conn, error), reply func([]byte)) {
	c, err := dial(f.ctx)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(f.ctx, func() { _ = c.Close() })()
	back := make(chan struct{})
	seen := make(chan struct{}, 1) // a reply has come
	f.do(func() {
		defer close(back)
		b := make([]byte, MaxDatagram)
		for {
			n, err := c.Read(b)
			if err != nil {
				return // nothing listens there, or the flow has ended
			}
			reply(b[:n])
			select {
			case seen <- struct{}{}:
			default:
			}
		}
	})
	idle := time.NewTimer(flowIdle)
	defer idle.Stop()
	for {
		select {
		case data := <-to.waiting:
			if _, err := c.Write(data); err != nil {
				return
			}
		case <-seen:
		case <-back:
			return
		case <-idle.C:
			return
		}
		idle.Reset(flowIdle)
	}
}
