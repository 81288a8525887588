package ec2instanceconnect_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsconnect "github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"
	"github.com/gorilla/websocket"
	"golang.org/x/crypto/ssh"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	connect "github.com/drydock-dev/drydock/internal/service/ec2instanceconnect"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const (
	instance = "i-0123456789abcdef0"
	stopped  = "i-0123456789abcdef1"
	onXen    = "i-0123456789abcdef3"
	endpoint = "eice-0123456789abcdef0"
)

// ec2 has instances and an endpoint.
type ec2 struct{ serial bool }

func (e ec2) GetSerialConsoleAccessStatus(context.Context, *awsec2.GetSerialConsoleAccessStatusInput) (*awsec2.GetSerialConsoleAccessStatusOutput, error) {
	return &awsec2.GetSerialConsoleAccessStatusOutput{SerialConsoleAccessEnabled: &e.serial}, nil
}

func (ec2) InstanceByID(_, _, id string) (ec2types.Instance, bool) {
	i := ec2types.Instance{InstanceId: &id, State: &ec2types.InstanceState{Name: ec2types.InstanceStateNameRunning}, Placement: &ec2types.Placement{AvailabilityZone: aws.String("us-east-1a")}}
	switch id {
	case stopped:
		i.State.Name = ec2types.InstanceStateNameStopped
	case onXen:
		i.InstanceType = ec2types.InstanceTypeT2Micro
	}
	return i, id == instance || id == stopped || id == onXen
}

func (ec2) DescribeInstanceConnectEndpoints(_ context.Context, in *awsec2.DescribeInstanceConnectEndpointsInput) (*awsec2.DescribeInstanceConnectEndpointsOutput, error) {
	if in.InstanceConnectEndpointIds[0] != endpoint {
		return nil, awserr.New("InvalidInstanceConnectEndpointId.NotFound", "The endpoint does not exist")
	}
	return &awsec2.DescribeInstanceConnectEndpointsOutput{InstanceConnectEndpoints: []ec2types.Ec2InstanceConnectEndpoint{{State: ec2types.Ec2InstanceConnectEndpointStateCreateComplete}}}, nil
}

func publicKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}

func TestKeys(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	s := connect.New(connect.Config{EC2: ec2{}, Clock: clock})
	srv := testkit.NewServer(t, testkit.Config{Services: func(*store.Store) []awsapi.Service { return []awsapi.Service{s.AWS()} }})
	c, ctx := awsconnect.NewFromConfig(srv.AWSConfig(srv.Account(t))), t.Context()
	send := func(id, user, key string, zone *string) error {
		_, err := c.SendSSHPublicKey(ctx, &awsconnect.SendSSHPublicKeyInput{InstanceId: &id, InstanceOSUser: &user, SSHPublicKey: &key, AvailabilityZone: zone})
		return err
	}
	first, second := publicKey(t), publicKey(t)
	if err := send(instance, "ec2-user", first+" me@here", aws.String("us-east-1a")); err != nil {
		t.Fatal(err)
	}
	clock.Step(40 * time.Second)
	if err := send(instance, "root", second, nil); err != nil {
		t.Fatal(err)
	}
	if keys := s.Keys(instance); len(keys) != 2 || keys["ec2-user"][0] != first+" me@here" || keys["root"][0] != second {
		t.Errorf("%v", keys)
	}
	clock.Step(20 * time.Second)
	if keys := s.Keys(instance); len(keys) != 1 || keys["ec2-user"] != nil {
		t.Errorf("a minute later: %v", keys)
	}
	clock.Step(40 * time.Second)
	if keys := s.Keys(instance); keys != nil {
		t.Errorf("in the end: %v", keys)
	}
	for range 150 {
		if err := send(instance, "ec2-user", first, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Keys(instance)["ec2-user"]); n != 100 {
		t.Errorf("%d keys", n)
	}
	testkit.WantError(t, send(stopped, "ec2-user", first, nil), "EC2InstanceStateInvalidException", "")
	testkit.WantError(t, send("i-0123456789abcdef2", "ec2-user", first, nil), "EC2InstanceNotFoundException", "The specified instance was not found.")
	testkit.WantError(t, send(instance, "ec2-user", first, aws.String("us-east-1b")), "EC2InstanceNotFoundException", "")
	for _, bad := range []string{strings.Repeat("x", 80), `command="id" ` + first, first + "\n" + second} {
		testkit.WantError(t, send(instance, "ec2-user", bad, nil), "InvalidArgsException", "Invalid SSH public key")
	}
	_, err := c.SendSerialConsoleSSHPublicKey(ctx, &awsconnect.SendSerialConsoleSSHPublicKeyInput{InstanceId: aws.String(instance), SSHPublicKey: &first})
	testkit.WantErrorWith(t, err, "SerialConsoleAccessDisabledException", "run the EnableSerialConsoleAccess API")
}

func TestSerialConsoleKeys(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	inUse := false
	s := connect.New(connect.Config{EC2: ec2{serial: true}, Clock: clock})
	s.Module(nil, func(id string) bool { return inUse && id == instance })
	srv := testkit.NewServer(t, testkit.Config{Services: func(*store.Store) []awsapi.Service { return []awsapi.Service{s.AWS()} }})
	c := awsconnect.NewFromConfig(srv.AWSConfig(srv.Account(t)))
	key := publicKey(t)
	send := func(id, key string) error {
		_, err := c.SendSerialConsoleSSHPublicKey(t.Context(), &awsconnect.SendSerialConsoleSSHPublicKeyInput{InstanceId: &id, SSHPublicKey: &key})
		return err
	}
	if err := send(instance, key); err != nil {
		t.Fatal(err)
	}
	if keys := s.SerialKeys(instance); len(keys) != 1 || keys[0] != key || s.Keys(instance) != nil || s.SerialKeys(onXen) != nil {
		t.Errorf("%q, and for sshd %v", keys, s.Keys(instance))
	}
	clock.Step(time.Minute)
	if keys := s.SerialKeys(instance); keys != nil {
		t.Errorf("a minute later: %q", keys)
	}
	testkit.WantErrorWith(t, send(onXen, key), "EC2InstanceTypeInvalidException", "Only Nitro instance types")
	testkit.WantError(t, send(stopped, key), "EC2InstanceStateInvalidException", "")
	testkit.WantErrorWith(t, send(instance, strings.Repeat("x", 80)), "InvalidArgsException", "Invalid SSH public key")
	inUse = true
	testkit.WantErrorWith(t, send(instance, key), "SerialConsoleSessionLimitExceededException", "1 active serial console session")
}

// calls accepts every request whose query names its caller.
type calls struct{ recorded chan error }

func (c calls) Presigned(r *http.Request, service, operation string) (*awsapi.Call, error) {
	if r.URL.Query().Get("who") == "" {
		return nil, errors.New("no signature")
	}
	return &awsapi.Call{Account: "000000000000", Region: "us-east-1", RequestID: "r-1"}, nil
}

func (c calls) RecordPresigned(_ *http.Request, _ string, _ *awsapi.Call, parameters any, err error) error {
	if b, failed := json.Marshal(parameters); failed != nil || !bytes.Contains(b, []byte(`"instanceConnectEndpointId"`)) {
		return errors.Join(err, failed, errors.New(string(b)))
	}
	c.recorded <- err
	return err
}

func TestTunnels(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	recorded := make(chan error, 100)
	var keys map[string][]string
	s := connect.New(connect.Config{
		EC2: ec2{}, Clock: clock, Calls: calls{recorded},
		Authorize: func(_ context.Context, _ *awsapi.Call, _ any, targets ...authz.Target) error {
			if keys = targets[0].Keys; targets[0].ID != endpoint {
				return awserr.New("AccessDeniedException", "not authorized")
			}
			return nil
		},
	})
	stuck := make(chan net.Conn, 10)
	m := s.Module(func(_ context.Context, account, region, from string, address netip.Addr, port int) (net.Conn, error) {
		if address.String() != "10.0.0.9" || account != "000000000000" || region != "us-east-1" || from != endpoint {
			return nil, errors.New("unreachable")
		}
		near, far := net.Pipe()
		if port == 3389 { // nothing is read there
			stuck <- far
			return near, nil
		}
		go func() {
			defer far.Close()
			_, _ = io.Copy(far, far)
		}()
		return near, nil
	}, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.ServesTunnel(r) {
			t.Errorf("not a tunnel: %s", r.URL)
		}
		s.ServeTunnel(w, r)
	}))
	t.Cleanup(srv.Close)
	open := func(query string, header http.Header) (*websocket.Conn, string) {
		t.Helper()
		if header == nil {
			header = http.Header{}
		}
		header.Set("Host", endpoint+".abc.ec2-instance-connect-endpoint.us-east-1.amazonaws.com")
		conn, resp, err := websocket.DefaultDialer.Dial(strings.Replace(srv.URL, "http", "ws", 1)+"/openTunnel?"+query, header)
		if err != nil {
			b, _ := io.ReadAll(resp.Body)
			return nil, resp.Status + " " + string(b)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn, ""
	}
	const good = "who=me&instanceConnectEndpointId=" + endpoint + "&remotePort=22&privateIpAddress=10.0.0.9"
	conn, why := open(good+"&maxTunnelDuration=100", nil)
	if why != "" {
		t.Fatal(why)
	}
	if keys["ec2-instance-connect:maxtunnelduration"][0] != "100" || keys["ec2-instance-connect:remoteport"][0] != "22" || keys["ec2-instance-connect:privateipaddress"][0] != "10.0.0.9" {
		t.Errorf("condition keys: %v", keys)
	}
	data := bytes.Repeat([]byte("x"), 60_000)
	if err := conn.WriteMessage(websocket.BinaryMessage, data); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < len(data); {
		_, b, err := conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		got += len(b)
	}
	ended := func(conn *websocket.Conn, code int, text string) {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, _, err := conn.ReadMessage()
		if e, ok := errors.AsType[*websocket.CloseError](err); !ok || e.Code != code || e.Text != text {
			t.Errorf("ended by %v", err)
		}
	}
	clock.Step(100 * time.Second)
	ended(conn, websocket.CloseNormalClosure, "")
	if conn, _ = open(strings.Replace(good, "0.9", "0.8", 1), nil); conn != nil {
		ended(conn, websocket.CloseInternalServerErr, "Unable to connect to target")
	}
	if conn, _ = open(good, nil); conn != nil {
		if err := conn.WriteMessage(websocket.TextMessage, []byte("x")); err != nil {
			t.Fatal(err)
		}
		ended(conn, websocket.CloseUnsupportedData, "only binary frames are supported")
	}
	if conn, _ = open(good, nil); conn != nil {
		_ = conn.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<20)) // the other end closes the connection
		got := 0
		for {
			_, b, err := conn.ReadMessage()
			if err != nil {
				break
			}
			got += len(b)
		}
		if got > 128<<10 {
			t.Errorf("%d bytes of a huge frame pass", got)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	// Everything that ends a tunnel also ends a tunnel whose target reads nothing.
	for name, end := range map[string]func(){
		"time":             func() { clock.Step(time.Hour) },
		"a reset":          func() { _ = m.Reset(t.Context(), "000000000000") },
		"a reset of all":   func() { _ = m.Reset(t.Context(), "") },
		"the daemon stops": func() { _ = m.Run(canceled) },
	} {
		conn, why := open(strings.Replace(good, "=22", "=3389", 1), nil)
		if conn == nil {
			t.Fatal(why)
		}
		far := <-stuck
		if err := conn.WriteMessage(websocket.BinaryMessage, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Read(make([]byte, 1)); err != nil { // the tunnel has written only a part
			t.Fatal(err)
		}
		if err := m.Reset(t.Context(), "111111111111"); err != nil { // another account
			t.Fatal(err)
		}
		end()
		ended(conn, websocket.CloseNormalClosure, "")
		_ = far.SetWriteDeadline(time.Now().Add(10 * time.Second))
		var err error
		for err == nil {
			_, err = far.Write([]byte("x"))
		}
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for query, want := range map[string]string{
		strings.Replace(good, "who=me", "", 1):                       `403 Forbidden {"ErrorCode":"AccessDenied"`,
		strings.Replace(good, "=22", "=23", 1):                       `400 Bad Request {"ErrorCode":"InvalidParameter","Message":"The specified RemotePort is not valid.`,
		strings.Replace(good, "10.0.0.9", "example.com", 1):          `400 Bad Request {"ErrorCode":"InvalidParameter"`,
		good + "&maxTunnelDuration=0":                                `400 Bad Request {"ErrorCode":"InvalidParameter"`,
		strings.Replace(good, endpoint, "eice-00000000000000000", 1): `400 Bad Request {"ErrorCode":"InvalidParameter"`,
	} {
		if conn, why := open(query, nil); conn != nil || !strings.HasPrefix(why, want) {
			t.Errorf("%s: %s", query, why)
		}
	}
	if conn, _ := open(good, http.Header{"Origin": {"https://example.com"}}); conn != nil {
		t.Error("a page in a browser opened a tunnel")
	}
	for n := 0; ; n++ {
		conn, why := open(good, nil)
		if conn == nil {
			if n < 15 || n > 20 || !strings.Contains(why, "ThrottlingException") { // those above may still be ending
				t.Errorf("after %d tunnels: %s", n, why)
			}
			break
		}
	}
	if err := <-recorded; err != nil {
		t.Errorf("the first tunnel is recorded with %v", err)
	}
}
