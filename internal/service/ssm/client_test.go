package ssm_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/uuid"
	"github.com/gorilla/websocket"
)

// The kinds of payload that clients of the data channel use.
const (
	payloadOutput   = 1
	payloadSize     = 3
	payloadRequest  = 5
	payloadResponse = 6
	payloadComplete = 7
	payloadQuestion = 8
	payloadAnswer   = 9
	payloadFlag     = 10
)

// A plugin is a client of the data channel that does what AWS's session-manager-plugin does.
type plugin struct {
	t       testing.TB
	conn    *websocket.Conn
	version string // of the plugin
	mute    bool   // it does not answer the handshake

	// action handles the handshake's KMS action. If it is nil, the plugin does not support that action.
	action func(keyID string) (result any, err error)
	// seal and open encrypt and decrypt output, once action has set them.
	seal, open func([]byte) []byte

	request  map[string]any // of the handshake
	message  string         // CustomerMessage
	complete chan struct{}  // closed when the handshake is complete
	flags    chan uint32
	output   *io.PipeReader // what the session prints
	printed  *io.PipeWriter
	closed   chan string // receives the reason when the session ends

	mu       sync.Mutex
	next     int64
	acked    int64 // frames that the session has acknowledged
	expected int64
	early    map[int64][]byte
}

// connect opens the data channel of a session.
func connect(t testing.TB, out *awsssm.StartSessionOutput, version string) *plugin {
	t.Helper()
	p := &plugin{t: t, version: version, complete: make(chan struct{}), flags: make(chan uint32, 10), closed: make(chan string, 1), early: map[int64][]byte{}}
	p.output, p.printed = io.Pipe()
	conn, resp, err := websocket.DefaultDialer.Dial(*out.StreamUrl, http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	p.conn = conn
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.WriteJSON(map[string]string{"MessageSchemaVersion": "1.0", "TokenValue": *out.TokenValue}); err != nil {
		t.Fatal(err)
	}
	return p
}

// frame returns the bytes of a message from the client.
func frame(kind string, number int64, payload uint32, data []byte) []byte {
	b := make([]byte, 120, 120+len(data))
	binary.BigEndian.PutUint32(b, 116)
	copy(b[4:36], kind+strings.Repeat(" ", 32))
	binary.BigEndian.PutUint32(b[36:], 1)
	binary.BigEndian.PutUint64(b[48:], uint64(number))
	id := uuid.New()
	copy(b[64:72], id[8:])
	copy(b[72:80], id[:8])
	digest := sha256.Sum256(data)
	copy(b[80:], digest[:])
	binary.BigEndian.PutUint32(b[112:], payload)
	binary.BigEndian.PutUint32(b[116:], uint32(len(data)))
	return append(b, data...)
}

// write sends a payload. It may be called from several goroutines.
func (p *plugin) write(payload uint32, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seal != nil && payload == payloadOutput {
		data = p.seal(data)
	}
	err := p.conn.WriteMessage(websocket.BinaryMessage, frame("input_stream_data", p.next, payload, data))
	p.next++
	return err
}

func (p *plugin) writeJSON(payload uint32, v any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = p.write(payload, data)
	}
	if err != nil {
		p.t.Error(err)
	}
}

// Write types p's bytes, a kilobyte at a time.
func (p *plugin) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		k := min(len(b), 1024)
		if err := p.write(payloadOutput, b[:k]); err != nil {
			return 0, err
		}
		b = b[k:]
	}
	return n, nil
}

// run reads the channel until the session ends.
func (p *plugin) run() {
	defer p.printed.Close()
	for {
		_, b, err := p.conn.ReadMessage()
		if err != nil {
			p.closed <- "connection: " + err.Error()
			return
		}
		kind, data := strings.TrimRight(string(b[4:36]), " "), b[120:]
		switch kind {
		case "channel_closed":
			var end struct{ Output string }
			_ = json.Unmarshal(data, &end)
			p.closed <- end.Output
			_ = p.conn.Close()
			return
		case "acknowledge":
			p.mu.Lock()
			p.acked++
			p.mu.Unlock()
		case "output_stream_data":
			number := int64(binary.BigEndian.Uint64(b[48:]))
			ack, _ := json.Marshal(map[string]any{"AcknowledgedMessageType": kind, "AcknowledgedMessageSequenceNumber": number, "IsSequentialMessage": true})
			p.mu.Lock()
			err := p.conn.WriteMessage(websocket.BinaryMessage, frame("acknowledge", 0, 0, ack))
			p.mu.Unlock()
			if err != nil {
				continue // the next read fails
			}
			if number < p.expected {
				continue
			}
			p.early[number] = b
			for next, ok := p.early[p.expected]; ok; next, ok = p.early[p.expected] {
				delete(p.early, p.expected)
				p.expected++
				p.handle(binary.BigEndian.Uint32(next[112:]), next[120:])
			}
		}
	}
}

func (p *plugin) handle(payload uint32, data []byte) {
	switch payload {
	case payloadRequest:
		p.handshake(data)
	case payloadQuestion:
		var challenge struct{ Challenge []byte }
		if err := json.Unmarshal(data, &challenge); err != nil {
			p.t.Error(err)
		}
		p.writeJSON(payloadAnswer, map[string][]byte{"Challenge": p.seal(p.open(challenge.Challenge))})
	case payloadComplete:
		var done struct{ CustomerMessage string }
		if err := json.Unmarshal(data, &done); err != nil {
			p.t.Error(err)
		}
		p.message = done.CustomerMessage
		close(p.complete)
	case payloadFlag:
		p.flags <- binary.BigEndian.Uint32(data)
	default:
		if p.open != nil {
			data = p.open(data)
		}
		_, _ = p.printed.Write(data) // the test may read no more
	}
}

func (p *plugin) handshake(data []byte) {
	if p.mute {
		return
	}
	var request struct {
		AgentVersion           string
		RequestedClientActions []struct {
			ActionType       string
			ActionParameters map[string]any
		}
	}
	if err := json.Unmarshal(data, &request); err != nil {
		p.t.Error(err)
	}
	response := struct {
		ClientVersion          string
		ProcessedClientActions []map[string]any
		Errors                 []string
	}{ClientVersion: p.version}
	for _, a := range request.RequestedClientActions {
		done := map[string]any{"ActionType": a.ActionType, "ActionStatus": 1}
		if a.ActionType == "SessionType" {
			p.request = a.ActionParameters
		}
		if a.ActionType == "KMSEncryption" {
			err := errors.New("not expected")
			if p.action != nil {
				done["ActionResult"], err = p.action(a.ActionParameters["KMSKeyId"].(string))
			}
			if err != nil {
				done["ActionStatus"], done["Error"] = 2, "Failed to process action KMSEncryption: "+err.Error()
				response.Errors = append(response.Errors, err.Error())
			}
		}
		response.ProcessedClientActions = append(response.ProcessedClientActions, done)
	}
	p.writeJSON(payloadResponse, response)
}

// expect reads output until it contains text.
func (p *plugin) expect(text string) string {
	p.t.Helper()
	var all bytes.Buffer
	b := make([]byte, 4096)
	for !strings.Contains(all.String(), text) {
		n, err := p.output.Read(b)
		all.Write(b[:n])
		if err != nil {
			p.t.Fatalf("the session printed %q, not %q", &all, text)
		}
	}
	return all.String()
}

// ended returns why the session ended.
func (p *plugin) ended() string {
	p.t.Helper()
	select {
	case why := <-p.closed:
		return why
	case <-time.After(10 * time.Second):
		p.t.Fatal("the session does not end")
		return ""
	}
}

// await waits until c is closed.
func await(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal(what)
	}
}
