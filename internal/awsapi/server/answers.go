package server

import (
	"bytes"
	"net/http"
	"sync"

	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// Controllers request the same long lists over and over while nothing changes. Building and encoding a hundred
// instances costs twenty times as much as the rest of the pipeline. Answers of operations that allow it
// (Operation.FromStore) are therefore reused until the store changes. Authorization is still checked every time.
const (
	maxKeptAnswer  = 1 << 20
	maxKeptAnswers = 4 << 20 // of all together, in bytes
	maxKeptRequest = 4 << 10
)

// answers caches the answers since the store last changed.
type answers struct {
	mu   sync.Mutex
	asOf <-chan struct{} // the channel that Config.Changed returned for that state
	kept map[question]*answer
	size int
}

// A question is everything besides the store that an answer depends on.
type question struct {
	operation               *operation
	account, region, accept string
	body                    string
}

// An answer is an encoded answer and the position of the request ID in it.
type answer struct {
	out  any
	resp *wire.Response
	id   int
}

// of returns the cached answer to q for the state asOf, or nil if the cache does not have it.
func (a *answers) of(q question, asOf <-chan struct{}) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asOf != asOf {
		a.asOf, a.kept, a.size = asOf, map[question]*answer{}, 0
	}
	return a.kept[q]
}

// keep caches an answer that was made from the state asOf or a later one.
func (a *answers) keep(q question, asOf <-chan struct{}, out any, resp *wire.Response, requestID string) {
	id := bytes.Index(resp.Body, []byte(requestID))
	if len(resp.Body) > maxKeptAnswer || id < 0 || bytes.Count(resp.Body, []byte(requestID)) > 1 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asOf == asOf && a.size+len(resp.Body) <= maxKeptAnswers {
		a.kept[q] = &answer{out, resp, id}
		a.size += len(resp.Body)
	}
}

// askAgain looks for a cached answer to the same request, and records the state that a new answer would be made
// from.
func (x *exchange) askAgain() {
	if !x.handler.FromStore || x.s.cfg.Changed == nil || x.req.RawQuery != "" || len(x.req.Body) > maxKeptRequest {
		return
	}
	x.question = question{x.handler, x.call.Account, x.call.Region, x.r.Header.Get("Accept"), string(x.req.Body)}
	x.asOf = x.s.cfg.Changed() // before looking, so that no change is missed
	x.again = x.s.answers.of(x.question, x.asOf)
}

// largeAnswer is the size, in bytes, of an answer whose end is sent before the call is recorded, which takes long for such an
// answer. Clients of smaller ones find the record as soon as they have the answer.
const largeAnswer = 1 << 20

// write sends resp, replacing the request ID in a reused answer.
func (x *exchange) write(resp *wire.Response) {
	body := resp.Body
	if a := x.again; a != nil && resp == a.resp {
		after := a.id + len(x.call.RequestID)
		_, _ = x.w.Write(body[:a.id])
		_, _ = x.w.Write([]byte(x.call.RequestID))
		body = body[after:]
	}
	_, _ = x.w.Write(body) // an error means that the client has disconnected
	if len(resp.Body) >= largeAnswer {
		_ = http.NewResponseController(x.w).Flush() // as above
	}
}
