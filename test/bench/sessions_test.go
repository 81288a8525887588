package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// managed starts instances that Session Manager reaches.
func (d *drydock) managed(ctx context.Context, n int32, keyName *string) []string {
	d.t.Helper()
	iam, ec2, ssm := awsiam.NewFromConfig(d.config()), awsec2.NewFromConfig(d.config()), awsssm.NewFromConfig(d.config())
	check := func(_ any, err error) {
		d.t.Helper()
		if err != nil {
			d.t.Fatal(err)
		}
	}
	check(iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("node"), AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))
	check(iam.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: aws.String("node"), PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")}))
	check(iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("node")}))
	check(iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("node"), RoleName: aws.String("node")}))
	run, err := ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
		ImageId: aws.String("resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"), InstanceType: ec2types.InstanceTypeT3Micro,
		MinCount: &n, MaxCount: &n, KeyName: keyName, IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("node")},
	})
	check(run, err)
	var ids []string
	for _, i := range run.Instances {
		ids = append(ids, *i.InstanceId)
	}
	testkit.Eventually(d.t, time.Minute, func() error {
		for _, id := range ids {
			s, err := ssm.GetConnectionStatus(ctx, &awsssm.GetConnectionStatusInput{Target: &id})
			if err != nil {
				return err
			}
			if s.Status != ssmtypes.ConnectionStatusConnected {
				return errors.New(id + " is not connected")
			}
		}
		return nil
	})
	return ids
}

// sessionFrame returns a frame of the data channel.
func sessionFrame(kind string, number int64, payload uint32, data []byte) []byte {
	b := make([]byte, 120, 120+len(data))
	binary.BigEndian.PutUint32(b, 116)
	copy(b[4:36], kind+strings.Repeat(" ", 32))
	binary.BigEndian.PutUint32(b[36:], 1)
	binary.BigEndian.PutUint64(b[48:], uint64(number))
	id := uuid.New()
	copy(b[64:], id[:])
	digest := sha256.Sum256(data)
	copy(b[80:], digest[:])
	binary.BigEndian.PutUint32(b[112:], payload)
	binary.BigEndian.PutUint32(b[116:], uint32(len(data)))
	return append(b, data...)
}

func acknowledgement(kind string, number int64) []byte {
	data, _ := json.Marshal(map[string]any{"AcknowledgedMessageType": kind, "AcknowledgedMessageId": uuid.NewString(), "AcknowledgedMessageSequenceNumber": number, "IsSequentialMessage": true})
	return sessionFrame("acknowledge", 0, 0, data)
}

// prompt opens a session's channel and returns when it shows the shell's prompt.
func prompt(t *testing.T, out *awsssm.StartSessionOutput) *websocket.Conn {
	t.Helper()
	conn, resp, err := websocket.DefaultDialer.Dial(*out.StreamUrl, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := conn.WriteJSON(map[string]string{"MessageSchemaVersion": "1.0", "TokenValue": *out.TokenValue}); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	for !strings.Contains(shown.String(), "$ ") {
		_, b, err := conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if kind := strings.TrimRight(string(b[4:36]), " "); kind == "output_stream_data" {
			if err := conn.WriteMessage(websocket.BinaryMessage, acknowledgement(kind, int64(binary.BigEndian.Uint64(b[48:])))); err != nil {
				t.Fatal(err)
			}
			switch binary.BigEndian.Uint32(b[112:]) {
			case 5: // the handshake's request
				if err := conn.WriteMessage(websocket.BinaryMessage, sessionFrame("input_stream_data", 0, 6, []byte(`{"ClientVersion":"1.2.707.0"}`))); err != nil {
					t.Fatal(err)
				}
			case 1:
				shown.Write(b[120:])
			}
		}
	}
	return conn
}

// TestBenchSessions measures the time from StartSession to the shell's prompt, and what idle sessions cost.
func TestBenchSessions(t *testing.T) {
	measure(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	d, _ := up(t, "--warm-spares", "0")
	ids := d.managed(ctx, 4, nil)
	ssm := awsssm.NewFromConfig(d.config())
	open := func(id string) *websocket.Conn {
		t.Helper()
		out, err := ssm.StartSession(ctx, &awsssm.StartSessionInput{Target: &id})
		if err != nil {
			t.Fatal(err)
		}
		return prompt(t, out)
	}
	open(ids[0]).Close() // makes the user ssm-user
	var took []time.Duration
	for range 11 {
		begun := time.Now()
		conn := open(ids[0])
		took = append(took, time.Since(begun))
		_ = conn.Close()
	}
	t.Logf("StartSession to the prompt: %v (median of %d)", median(took).Round(time.Millisecond), len(took))
	for _, id := range ids {
		sessions, err := ssm.DescribeSessions(ctx, &awsssm.DescribeSessionsInput{State: ssmtypes.SessionStateActive, Filters: []ssmtypes.SessionFilter{{Key: ssmtypes.SessionFilterKeyTargetId, Value: &id}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sessions.Sessions {
			if _, err := ssm.TerminateSession(ctx, &awsssm.TerminateSessionInput{SessionId: s.SessionId}); err != nil {
				t.Fatal(err)
			}
		}
	}
	settle(d.pids(), time.Minute)
	before := memoryMB([]int{d.PID}, "VmRSS:")
	for _, id := range ids {
		for range 50 {
			defer open(id).Close()
		}
	}
	settle(d.pids(), time.Minute)
	t.Logf("200 idle sessions: the daemon's resident memory grows from %v to %v MB", before, memoryMB([]int{d.PID}, "VmRSS:"))
}

// nullServer answers the plugin like an agent whose port swallows everything. It closes done when it has got size bytes.
func nullServer(t *testing.T, size int, done chan<- struct{}) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, _, err := conn.ReadMessage(); err != nil {
			return
		}
		var writing sync.Mutex
		send := func(b []byte) {
			writing.Lock()
			defer writing.Unlock()
			_ = conn.WriteMessage(websocket.BinaryMessage, b) // the next read fails
		}
		shaken := make(chan struct{})
		go func() { // the plugin drops what it is not ready for
			for {
				send(sessionFrame("output_stream_data", 0, 5, []byte(`{"AgentVersion":"3.3.3050.0","RequestedClientActions":[{"ActionType":"SessionType","ActionParameters":{"SessionType":"Port","Properties":{"portNumber":"22"}}}]}`)))
				select {
				case <-shaken:
					return
				case <-r.Context().Done():
					return
				case <-time.After(200 * time.Millisecond):
				}
			}
		}()
		answered := sync.OnceFunc(func() { close(shaken) })
		for left := size; ; {
			_, b, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if kind := strings.TrimRight(string(b[4:36]), " "); kind == "input_stream_data" {
				send(acknowledgement(kind, int64(binary.BigEndian.Uint64(b[48:]))))
				switch binary.BigEndian.Uint32(b[112:]) {
				case 6:
					answered()
					send(sessionFrame("output_stream_data", 1, 7, []byte(`{"HandshakeTimeToComplete":1,"CustomerMessage":""}`)))
				case 1:
					if left -= len(b) - 120; left <= 0 {
						close(done)
						return
					}
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// TestBenchPortSession compares sftp, as scp uses it, through Session Manager and the real plugin with what the plugin reaches against a
// server that does nothing.
func TestBenchPortSession(t *testing.T) {
	measure(t)
	for _, program := range []string{"session-manager-plugin", "sftp", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			needs.Missing(t, "needs %s: make bin/session-manager-plugin", program)
		}
	}
	const size = 64 << 20
	const pieces = 16 // the disk of a simulated machine has 8 MiB
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	file, key := filepath.Join(dir, "data"), filepath.Join(dir, "key")
	if err := os.WriteFile(file, bytes.Repeat([]byte("0123456789abcdef"), size/pieces/16), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(c *exec.Cmd) time.Duration {
		t.Helper()
		begun := time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
		return time.Since(begun)
	}
	run(exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key))
	d, _ := up(t, "--warm-spares", "0")
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := awsec2.NewFromConfig(d.config()).ImportKeyPair(ctx, &awsec2.ImportKeyPairInput{KeyName: aws.String("mine"), PublicKeyMaterial: public}); err != nil {
		t.Fatal(err)
	}
	id := d.managed(ctx, 1, aws.String("mine"))[0]
	ssm := awsssm.NewFromConfig(d.config())
	plugin := func(out *awsssm.StartSessionOutput) *exec.Cmd {
		response, err := json.Marshal(map[string]*string{"SessionId": out.SessionId, "TokenValue": out.TokenValue, "StreamUrl": out.StreamUrl})
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(ctx, "session-manager-plugin", string(response), "us-east-1", "StartSession", "", `{"Target":"`+id+`"}`, d.URL)
		c.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL="+d.URL)
		return c
	}
	transfer := func(command string) time.Duration {
		t.Helper()
		out, err := ssm.StartSession(ctx, &awsssm.StartSessionInput{Target: &id, DocumentName: aws.String("AWS-StartSSHSession")})
		if err != nil {
			t.Fatal(err)
		}
		var script bytes.Buffer
		script.WriteString("exec")
		proxy := plugin(out)
		for _, a := range proxy.Args {
			script.WriteString(" '" + a + "'")
		}
		path := filepath.Join(dir, "proxy.sh")
		if err := os.WriteFile(path, script.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(ctx, "sftp", "-q", "-b", "-", "-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ProxyCommand=sh "+path, "ec2-user@"+id)
		c.Env, c.Stdin = proxy.Env, strings.NewReader(strings.Repeat(command+"\n", pieces))
		return run(c)
	}
	sent := transfer("put " + file + " data")
	received := transfer("get data " + filepath.Join(dir, "back"))

	done := make(chan struct{})
	null := nullServer(t, size, done)
	c := plugin(&awsssm.StartSessionOutput{SessionId: aws.String("null"), TokenValue: aws.String("t"), StreamUrl: aws.String(strings.Replace(null.URL, "http", "ws", 1))})
	c.Stdin = bytes.NewReader(make([]byte, size))
	begun := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("the plugin does not send everything")
	}
	against := time.Since(begun)
	_ = c.Process.Kill() // it waits for the end of the session, which does not come
	_ = c.Wait()
	rate := func(took time.Duration) float64 { return float64(size) / (1 << 20) / took.Seconds() }
	t.Logf("64 MiB: the plugin against a server that does nothing: %.2f MiB/s; sftp through Session Manager: %.2f MiB/s up (%.0f %%), %.2f MiB/s down",
		rate(against), rate(sent), 100*rate(sent)/rate(against), rate(received))
}
