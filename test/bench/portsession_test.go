package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
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
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/gorilla/websocket"

	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// nullServer answers the plugin like an agent whose port discards everything. It closes done when size bytes have arrived.
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
		next := uint64(0) // the sequence number of the next frame; the plugin sends some frames twice
		for left := size; ; {
			_, b, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if kind := strings.TrimRight(string(b[4:36]), " "); kind == "input_stream_data" {
				number := binary.BigEndian.Uint64(b[48:])
				send(acknowledgement(kind, int64(number)))
				if number != next {
					continue
				}
				next++
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

// TestBenchPortSession compares scp through Session Manager, with the real plugin, with what the plugin reaches against a server
// that does nothing.
func TestBenchPortSession(t *testing.T) {
	measure(t)
	for _, program := range []string{"session-manager-plugin", "scp", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			needs.Missing(t, "needs %s: make bin/session-manager-plugin", program)
		}
	}
	const size = 64 << 20
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	dir := t.TempDir()
	file, key := filepath.Join(dir, "data"), filepath.Join(dir, "key")
	data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	if err := os.WriteFile(file, data, 0o600); err != nil {
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
	transfer := func(from, to string) time.Duration {
		t.Helper()
		out, err := ssm.StartSession(ctx, &awsssm.StartSessionInput{Target: &id, DocumentName: aws.String("AWS-StartSSHSession")})
		if err != nil {
			t.Fatal(err)
		}
		proxy := plugin(out)
		path := filepath.Join(dir, "proxy.sh")
		if err := os.WriteFile(path, []byte("exec '"+strings.Join(proxy.Args, "' '")+"'"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(ctx, "scp", "-q", "-B", "-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ProxyCommand=sh "+path, from, to)
		c.Env = proxy.Env
		return run(c)
	}
	discard := func() time.Duration {
		t.Helper()
		done := make(chan struct{})
		null := nullServer(t, size, done)
		c := plugin(&awsssm.StartSessionOutput{SessionId: aws.String("null"), TokenValue: aws.String("t"), StreamUrl: aws.String(strings.Replace(null.URL, "http", "ws", 1))})
		// The plugin exits at the end of its input without reading the acknowledgements that have arrived. That may reset the
		// connection, and the server would lose what it has not read yet. So the input stays open.
		stdin, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = stdin.Write(make([]byte, size)) }() // done says whether everything has arrived
		select {
		case <-done:
		case <-ctx.Done():
			t.Fatal("the plugin does not send everything")
		}
		took := time.Since(begun)
		_ = c.Process.Kill() // it waits for the end of the session, which does not come
		_ = c.Wait()
		return took
	}
	rate := func(took time.Duration) float64 { return float64(size) / (1 << 20) / took.Seconds() }
	before := discard()
	t.Logf("against a server that does nothing: %v", before)
	remote, back := "ec2-user@"+id+":data", filepath.Join(dir, "back")
	sent := transfer(file, remote)
	t.Logf("through Session Manager: %v", sent)
	after := discard()
	received := transfer(remote, back)
	if b, err := os.ReadFile(back); err != nil || !bytes.Equal(b, data) {
		t.Errorf("%d bytes came back, %v", len(b), err)
	}
	against := (before + after) / 2
	t.Logf("64 MiB: the plugin against a server that does nothing: %.2f MiB/s (%v, %v); scp through Session Manager: %.2f MiB/s up (%.0f %%), %.2f MiB/s down",
		rate(against), before.Round(time.Second), after.Round(time.Second), rate(sent), 100*rate(sent)/rate(against), rate(received))
	if rate(sent) < 0.8*rate(against) {
		t.Errorf("scp sends %.0f %% of what the plugin does, less than 80 %%", 100*rate(sent)/rate(against))
	}
}
