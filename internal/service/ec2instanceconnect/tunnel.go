package ec2instanceconnect

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/gorilla/websocket"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// A Dial connects a client to a port of a private address from an Instance Connect endpoint, if the network allows it.
type Dial func(ctx context.Context, account, region, endpoint string, address netip.Addr, port int) (net.Conn, error)

// Calls identifies and records the callers of presigned URLs.
type Calls interface {
	Presigned(r *http.Request, service, operation string) (*awsapi.Call, error)
	RecordPresigned(r *http.Request, service string, call *awsapi.Call, parameters any, err error) error
}

// Bounds of tunnels. The first two are AWS's.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/connect-with-ec2-instance-connect-endpoint.html
const (
	maxDuration = 3600 // seconds
	maxTunnels  = 20   // of an endpoint
	maxFrame    = 128 << 10
	frame       = 32 << 10
	writeIn     = time.Minute // a client that reads nothing for this long is disconnected
)

// wall is the real clock, even if the service has another one: the kernel enforces the deadlines of sockets.
var wall = clock.RealClock{}

// The name of the service, and the path and the name of the operation.
const (
	service    = "ec2-instance-connect"
	tunnelPath = "/openTunnel"
	operation  = "OpenTunnel"
)

// ServesTunnel reports whether a request opens a tunnel.
func (s *Service) ServesTunnel(r *http.Request) bool {
	return r.URL.Path == tunnelPath && websocket.IsWebSocketUpgrade(r)
}

// An opening holds the parameters of a request to open a tunnel.
type opening struct {
	Endpoint string `json:"instanceConnectEndpointId"`
	Duration int    `json:"maxTunnelDuration,omitempty"`
	Port     int    `json:"remotePort"`
	Address  string `json:"privateIpAddress"`

	address netip.Addr
}

func invalid(text string) error { return awserr.New("InvalidParameter", text) }

// parse reads the parameters of a request. Its host name must be that of the endpoint.
func parse(r *http.Request) (o opening, err error) {
	q := r.URL.Query()
	o.Endpoint, o.Address, o.Duration = q.Get("instanceConnectEndpointId"), q.Get("privateIpAddress"), maxDuration
	o.Port, err = strconv.Atoi(q.Get("remotePort"))
	// This is the text of a real response: https://github.com/aidansteele/rdsconn/issues/5
	if err != nil || o.Port != 22 && o.Port != 3389 {
		return o, invalid("The specified RemotePort is not valid. Specify either 22 or 3389 as the RemotePort and retry your request.")
	}
	if d := q.Get("maxTunnelDuration"); d != "" {
		if o.Duration, err = strconv.Atoi(d); err != nil || o.Duration < 1 || o.Duration > maxDuration {
			return o, invalid("The specified MaxTunnelDuration is not valid. Specify a value between 1 and 3600 and retry your request.") // from memory
		}
	}
	if o.address, err = netip.ParseAddr(o.Address); err != nil {
		return o, invalid("The specified PrivateIpAddress is not valid. Specify a valid PrivateIpAddress and retry your request.") // from memory
	}
	if !strings.HasPrefix(strings.ToLower(r.Host), o.Endpoint+".") {
		return o, invalid("The specified InstanceConnectEndpointId is not valid. Specify a valid InstanceConnectEndpointId and retry your request.") // from memory
	}
	return o, nil
}

// ServeTunnel serves a tunnel until it ends. Errors before it opens are the body of the response, which clients print.
func (s *Service) ServeTunnel(w http.ResponseWriter, r *http.Request) {
	call, err := s.cfg.Calls.Presigned(r, service, operation)
	if err != nil {
		refuse(w, http.StatusForbidden, "AccessDenied", err.Error())
		return
	}
	o, err := parse(r)
	if err == nil {
		err = s.authorize(r.Context(), call, &o)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	t := &tunnel{call.Account, o.Endpoint, cancel}
	if err == nil {
		err = s.enter(awsapi.WithCall(r.Context(), call), t)
		defer s.leave(t)
	}
	if err = s.cfg.Calls.RecordPresigned(r, service, call, o, err); err != nil {
		api, ok := errors.AsType[smithy.APIError](err)
		switch {
		case !ok:
			refuse(w, http.StatusInternalServerError, "InternalError", "internal error")
		case api.ErrorCode() == "InvalidParameter":
			refuse(w, http.StatusBadRequest, api.ErrorCode(), api.ErrorMessage())
		default:
			refuse(w, http.StatusForbidden, api.ErrorCode(), api.ErrorMessage())
		}
		return
	}
	w.Header().Set("X-Amzn-Requestid", call.RequestID)
	// Browsers send an Origin header. The aws CLI does not.
	upgrader := websocket.Upgrader{HandshakeTimeout: 10 * time.Second, CheckOrigin: func(r *http.Request) bool { return r.Header.Get("Origin") == "" }}
	client, err := upgrader.Upgrade(w, r, w.Header())
	if err != nil {
		return // Upgrade has written the response
	}
	defer client.Close()
	client.SetReadLimit(maxFrame)
	ended := s.cfg.Clock.AfterFunc(time.Duration(o.Duration)*time.Second, cancel)
	defer ended.Stop()
	conn, err := s.dial(ctx, call.Account, call.Region, o.Endpoint, o.address, o.Port)
	if err != nil {
		if ctx.Err() != nil {
			bye(client, websocket.CloseNormalClosure, "")
		} else {
			bye(client, websocket.CloseInternalServerErr, "Unable to connect to target") // from memory
		}
		return
	}
	// The client first: carry closes its connection once the target's, which may be reading nothing, is closed.
	defer context.AfterFunc(ctx, func() {
		bye(client, websocket.CloseNormalClosure, "")
		_ = conn.Close()
	})()
	carry(client, conn)
}

// refuse answers a request with an error instead of a tunnel.
func refuse(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct{ ErrorCode, Message string }{code, text}) // the client may be gone
}

func (s *Service) authorize(ctx context.Context, call *awsapi.Call, o *opening) error {
	return s.cfg.Authorize(awsapi.WithCall(ctx, call), call, nil, authz.Target{
		Action: service + ":" + operation, Type: "instance-connect-endpoint", ID: o.Endpoint, AllKeys: true,
		Keys: map[string][]string{
			service + ":remoteport": {strconv.Itoa(o.Port)}, service + ":privateipaddress": {o.Address}, service + ":maxtunnelduration": {strconv.Itoa(o.Duration)},
		},
	})
}

// A tunnel is an open connection through an endpoint.
type tunnel struct {
	account, endpoint string
	end               context.CancelFunc
}

// enter records an open tunnel. It returns an error if the endpoint is not ready or has too many tunnels.
func (s *Service) enter(ctx context.Context, t *tunnel) error {
	out, err := s.cfg.EC2.DescribeInstanceConnectEndpoints(ctx, &awsec2.DescribeInstanceConnectEndpointsInput{InstanceConnectEndpointIds: []string{t.endpoint}})
	if err != nil {
		return err
	}
	ready := []ec2types.Ec2InstanceConnectEndpointState{ec2types.Ec2InstanceConnectEndpointStateCreateComplete, "update-in-progress", "update-complete", "update-failed"}
	if len(out.InstanceConnectEndpoints) != 1 || !slices.Contains(ready, out.InstanceConnectEndpoints[0].State) {
		return invalid("The specified InstanceConnectEndpointId is not in a valid state.") // from memory
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	open := 0
	for other := range s.tunnels {
		if other.endpoint == t.endpoint {
			open++
		}
	}
	if open >= maxTunnels {
		return awserr.New("ThrottlingException", "The maximum number of concurrent connections of the EC2 Instance Connect Endpoint has been reached.") // from memory
	}
	s.tunnels[t] = true
	return nil
}

func (s *Service) leave(t *tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tunnels, t)
}

// endTunnels ends the tunnels of an account, or of all accounts if account is empty.
func (s *Service) endTunnels(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.tunnels {
		if account == "" || t.account == account {
			t.end()
		}
	}
}

// bye closes a tunnel and gives the client a second to answer. The client prints the text unless the closure is normal.
func bye(client *websocket.Conn, code int, text string) {
	_ = client.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), wall.Now().Add(time.Second)) // the client may be gone
	_ = client.SetReadDeadline(wall.Now().Add(time.Second))                                                                // for the client's answer
}

// carry copies in both directions until either end closes its connection.
func carry(client *websocket.Conn, conn net.Conn) {
	defer conn.Close()
	go func() { // ends with conn
		b := make([]byte, frame)
		for {
			n, err := conn.Read(b)
			if n > 0 {
				_ = client.SetWriteDeadline(wall.Now().Add(writeIn)) // a closed connection fails at the next write
				if client.WriteMessage(websocket.BinaryMessage, b[:n]) != nil {
					_ = client.Close() // the loop below ends
					return
				}
			}
			if err != nil {
				bye(client, websocket.CloseNormalClosure, "")
				return
			}
		}
	}()
	for {
		kind, r, err := client.NextReader()
		if err != nil {
			return
		}
		if kind != websocket.BinaryMessage {
			bye(client, websocket.CloseUnsupportedData, "only binary frames are supported")
			return
		}
		if _, err := io.Copy(conn, r); err != nil {
			return
		}
	}
}
