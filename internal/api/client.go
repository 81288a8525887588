package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/drydock-dev/drydock/internal/fault"
)

// Prefix starts all of the daemon's own paths.
const Prefix = "/_drydock/"

// A Client calls a running daemon.
type Client struct {
	Daemon DaemonInfo
	// Agent is the User-Agent, such as drydock/1.0.
	Agent string
}

// An Error is a response other than 200 OK.
type Error struct {
	Status  int    // StatusUnknown and others
	Message string // may be empty
	PID     int    // of the daemon
}

// StatusUnknown is the status of questions that cannot be answered because something could not be read from a twin's
// source.
const StatusUnknown = http.StatusFailedDependency

func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return fmt.Sprintf("the daemon (process %d) answered %d %s", e.PID, e.Status, http.StatusText(e.Status))
}

// An UnreachableError means that the daemon did not respond at all.
type UnreachableError struct {
	PID int
	Err error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the daemon (process %d) does not answer: %v", e.PID, e.Err)
}

// Unwrap returns the reason.
func (e *UnreachableError) Unwrap() error { return e.Err }

// A Place is the account and region that a request is about. Empty values default to the
// daemon's default account and us-east-1.
type Place struct{ Account, Region string }

func (p Place) values(more ...string) url.Values {
	v := url.Values{"account": {p.Account}, "region": {p.Region}}
	for i := 0; i < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return v
}

// Ping returns the process ID of the daemon.
func (c *Client) Ping(ctx context.Context) (Ping, error) { return get[Ping](ctx, c, "ping", nil) }

// Status returns the daemon's clusters and counters.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "status", nil)
}

// Reset empties an account, or all of them if account is empty.
func (c *Client) Reset(ctx context.Context, account string) error {
	q := url.Values{}
	if account != "" {
		q.Set("account", account)
	}
	return c.call(ctx, http.MethodPost, "reset", q, nil, nil)
}

// Images returns the images of a region.
func (c *Client) Images(ctx context.Context, region string) ([]Image, error) {
	return get[[]Image](ctx, c, "images", url.Values{"region": {region}})
}

// AliasImage maps a foreign image ID to an image of the catalogue.
func (c *Client) AliasImage(ctx context.Context, a ImageAlias) error {
	return c.call(ctx, http.MethodPost, "images/alias", nil, a, nil)
}

// LoadImage stores an archive of images for nodes that run containers, and returns their names.
func (c *Client) LoadImage(ctx context.Context, archive io.Reader) ([]string, error) {
	res, err := c.do(ctx, http.MethodPost, "node-images", nil, archive)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var out []string
	return out, json.NewDecoder(res.Body).Decode(&out)
}

// LoadedImages returns the names of the images of LoadImage.
func (c *Client) LoadedImages(ctx context.Context) ([]string, error) {
	return get[[]string](ctx, c, "node-images", nil)
}

// Nodes returns the names that WhyNode accepts: instance IDs and node names.
func (c *Client) Nodes(ctx context.Context, p Place) ([]string, error) {
	return get[[]string](ctx, c, "nodes", p.values())
}

// Pods returns a cluster's pods and their owners as NAMESPACE/NAME, or only those that run.
// cluster may be empty if there is only one.
func (c *Client) Pods(ctx context.Context, p Place, cluster string, running bool) ([]string, error) {
	q := p.values("cluster", cluster)
	if running {
		q.Set("running", "true")
	}
	return get[[]string](ctx, c, "pods", q)
}

// WhyNode explains how far an instance got in joining its cluster. name is an instance
// ID or a node name.
func (c *Client) WhyNode(ctx context.Context, p Place, name string) (NodeExplanation, error) {
	return get[NodeExplanation](ctx, c, "why/node", p.values("name", name))
}

// WhyNodes explains the nodes of a cluster, or only those of nodegroup if it is not empty.
// cluster may be empty if there is only one.
func (c *Client) WhyNodes(ctx context.Context, p Place, cluster, nodegroup string) (NodesExplanation, error) {
	return get[NodesExplanation](ctx, c, "why/nodes", p.values("cluster", cluster, "nodegroup", nodegroup))
}

// WhyPod explains how far a pod has come. name may also be the pod's controller; the
// daemon then picks the pod with the worst problem.
func (c *Client) WhyPod(ctx context.Context, p Place, cluster, namespace, name string) (PodExplanation, error) {
	return get[PodExplanation](ctx, c, "why/pod", p.values("cluster", cluster, "namespace", namespace, "name", name))
}

// WhyServiceAccount explains which role the pods of a service account get.
func (c *Client) WhyServiceAccount(ctx context.Context, p Place, cluster, namespace, name string) (ServiceAccountExplanation, error) {
	return get[ServiceAccountExplanation](ctx, c, "why/serviceaccount", p.values("cluster", cluster, "namespace", namespace, "name", name))
}

// A Connection is the subject of WhyReach, in the syntax of drydock why reach.
type Connection struct{ From, To, Port, Protocol string }

// WhyReach explains whether a connection can be made.
func (c *Client) WhyReach(ctx context.Context, p Place, n Connection) (ReachExplanation, error) {
	return get[ReachExplanation](ctx, c, "why/reach", p.values("from", n.From, "to", n.To, "port", n.Port, "protocol", n.Protocol))
}

// WhyRequest explains why a request was denied. An empty id selects the account's last
// denied request; an empty account selects any.
func (c *Client) WhyRequest(ctx context.Context, account, id string) (RequestExplanation, error) {
	q := url.Values{"account": {account}}
	if id != "" {
		q.Set("id", id)
	}
	return get[RequestExplanation](ctx, c, "why/request", q)
}

// WhyStack explains the state of a stack. name may be its ARN.
func (c *Client) WhyStack(ctx context.Context, p Place, name string) (StackExplanation, error) {
	return get[StackExplanation](ctx, c, "why/stack", p.values("name", name))
}

// A Caller is the owner of an access key.
type Caller struct{ AccessKeyID, SessionToken string }

// WhySession explains whether a caller can start a session with an instance. name may be its node's. An empty document
// is the default one.
//
// from is the Instance Connect endpoint of a session by eic or ssh; empty means the laptop. user is the user on the
// instance of such a session; empty means ec2-user.
func (c *Client) WhySession(ctx context.Context, p Place, name, by, document, from, user string, who Caller) (SessionExplanation, error) {
	return get[SessionExplanation](ctx, c, "why/session", p.values("name", name, "by", by, "document", document, "from", from, "user", user, "key", who.AccessKeyID, "token", who.SessionToken))
}

// Try returns the commands that explain the requests of an access key that have failed since a time.
func (c *Client) Try(ctx context.Context, accessKeyID string, since time.Time) ([]string, error) {
	return get[[]string](ctx, c, "why/try", url.Values{"key": {accessKeyID}, "since": {since.Format(time.RFC3339Nano)}})
}

// Stacks returns the names of the stacks that exist.
func (c *Client) Stacks(ctx context.Context, p Place) ([]string, error) {
	return get[[]string](ctx, c, "stacks", p.values())
}

// Faults returns the faults in force, of all regions if the region is empty.
func (c *Client) Faults(ctx context.Context, p Place) ([]fault.Fault, error) {
	return get[[]fault.Fault](ctx, c, "faults", p.values())
}

// FaultTargets returns what faults can be set on.
func (c *Client) FaultTargets(ctx context.Context, p Place) (FaultTargets, error) {
	return get[FaultTargets](ctx, c, "faults/targets", p.values())
}

// SetFault puts a fault in force and returns it with its ID.
func (c *Client) SetFault(ctx context.Context, f fault.Fault) (fault.Fault, error) {
	var out fault.Fault
	err := c.call(ctx, http.MethodPost, "faults", nil, f, &out)
	return out, err
}

// ClearFaults clears faults by ID, by kind if it is not empty, or all of them, and
// returns the cleared ones.
func (c *Client) ClearFaults(ctx context.Context, p Place, kind fault.Kind, ids ...string) ([]fault.Fault, error) {
	q := p.values("kind", string(kind))
	q["id"] = ids
	var gone []fault.Fault
	err := c.call(ctx, http.MethodDelete, "faults", q, nil, &gone)
	return gone, err
}

// Page returns the raw body of a page, such as goroutines.
func (c *Client) Page(ctx context.Context, path string) ([]byte, error) {
	return get[[]byte](ctx, c, path, nil)
}

// BeginPodRun starts a pod run, which lasts until its events are closed.
func (c *Client) BeginPodRun(ctx context.Context, in PodRunRequest) (*PodRunEvents, *PodRun, error) {
	resp, err := c.do(ctx, http.MethodPost, "pod-runs", nil, in)
	if err != nil {
		return nil, nil, err
	}
	events := &PodRunEvents{resp.Body, json.NewDecoder(resp.Body)}
	first, err := events.Next()
	if err != nil || first.Run == nil {
		_ = resp.Body.Close() // the error below is sufficient
		return nil, nil, fmt.Errorf("the daemon's answer: %w", errors.Join(err, errNoRun))
	}
	return events, first.Run, nil
}

// EndPodRun ends a run. The run's event stream delivers its last events and then ends.
func (c *Client) EndPodRun(ctx context.Context, secret string) error {
	return c.call(ctx, http.MethodPost, "pod-runs/end", nil, PodRunEnd{secret}, nil)
}

var errNoRun = errors.New("the first event of the stream is not the start of a run")

// PodRunEvents is the daemon's event stream during a run.
type PodRunEvents struct {
	io.Closer
	dec *json.Decoder
}

// Next waits for the next event. It returns an error when the run has ended.
func (e *PodRunEvents) Next() (PodRunEvent, error) {
	var out PodRunEvent
	err := e.dec.Decode(&out)
	return out, err
}

const (
	// patience limits the duration of most calls.
	patience = time.Minute
	// maxAnswer limits the size of a response.
	maxAnswer = 64 << 20
)

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var out T
	err := c.call(ctx, http.MethodGet, path, query, nil, &out)
	return out, err
}

// call sends a request and decodes the JSON response into out. A *[]byte receives the raw
// body; a nil out discards it.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	return c.callFor(ctx, patience, method, path, query, in, out)
}

// callFor is call with another limit of the duration.
func (c *Client) callFor(ctx context.Context, patience time.Duration, method, path string, query url.Values, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := c.do(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the daemon's answer: %w", err)
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = b
		return nil
	}
	return json.Unmarshal(b, out)
}

// do sends a request with a body in JSON, or read from an io.Reader. The caller closes the response body.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	u := c.Daemon.URL + Prefix + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	body, ok := in.(io.Reader)
	if in != nil && !ok {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	if c.Daemon.Token != "" {
		req.Header.Set("Authorization", Bearer+c.Daemon.Token)
	}
	if c.Agent != "" {
		req.Header.Set("User-Agent", c.Agent)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &UnreachableError{PID: c.Daemon.PID, Err: err}
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // a partial message is better than none
		return nil, &Error{Status: resp.StatusCode, Message: string(bytes.TrimSpace(said)), PID: c.Daemon.PID}
	}
	return resp, nil
}
