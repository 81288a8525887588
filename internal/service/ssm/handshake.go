package ssm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/ssm/datachannel"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
)

// A handshakeResponse is the client's answer to the handshake's request.
type handshakeResponse struct {
	ClientVersion          string
	ProcessedClientActions []struct {
		ActionType   string
		ActionStatus int // 1 is success
		ActionResult json.RawMessage
		Error        string
	}
}

// actionKMS is the action in which the client gets the keys of an encrypted session from KMS.
const actionKMS = "KMSEncryption"

// A failure is an error that the client prints when a session fails. The texts are those of AWS's agent.
// https://github.com/aws/amazon-ssm-agent/tree/mainline/agent/session
type failure string

func (f failure) Error() string { return "----------ERROR-------\n" + string(f) }

// run performs the handshake with the client, runs the session's program and ends the session.
func (l *live) run() {
	err := l.shake()
	if err == nil {
		switch {
		case l.plan.kind != document.Port:
			err = l.runProgram()
		case l.plan.port.Type == "":
			err = l.runSSH()
		case l.muxed():
			err = l.runMuxed()
		default:
			<-l.ctx.Done() // receive does the rest until the client ends the session
		}
	}
	text := ""
	if f := failure(""); errors.As(err, &f) && l.ctx.Err() == nil {
		text = f.Error()
	} else if err != nil && l.ctx.Err() == nil {
		text = failure(err.Error()).Error()
	}
	l.channel.Drain(5 * time.Second)
	l.end(text)
}

// shake performs the handshake. It returns once the client is ready for the session.
func (l *live) shake() error {
	began := l.s.clock.Now()
	var properties any
	if l.plan.kind == document.Port {
		// The plugin multiplexes connections because all agents are newer than 3.0.196.0.
		given := map[string]string{"portNumber": fmt.Sprint(l.plan.port.Port)}
		if l.plan.port.Type != "" { // without a type, the plugin connects its standard input and output
			given["localPortNumber"], given["type"] = l.plan.port.LocalPort, l.plan.port.Type
		}
		properties = given
	}
	actions := []map[string]any{{"ActionType": "SessionType", "ActionParameters": map[string]any{"SessionType": l.plan.kind, "Properties": properties}}}
	key := l.plan.preferences.KMSKeyID
	if key != "" {
		actions = append([]map[string]any{{"ActionType": actionKMS, "ActionParameters": map[string]string{"KMSKeyId": key}}}, actions...)
	}
	if err := l.send(datachannel.HandshakeRequest, map[string]any{"AgentVersion": cmp.Or(l.s.fleet.AgentVersion(l.rec.Target), latestAgent), "RequestedClientActions": actions}); err != nil {
		return err
	}
	select {
	case <-l.shaken:
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
	for _, a := range l.response.ProcessedClientActions {
		if a.ActionStatus != 1 {
			return failure(fmt.Sprintf("Encountered error while initiating handshake. %s failed on client with status %d error: %s", a.ActionType, a.ActionStatus, a.Error))
		}
	}
	if key != "" {
		if err := l.encrypt(); err != nil {
			return failure("Encountered error while initiating handshake. " + err.Error())
		}
	}
	close(l.ready) // first, because the client may answer at once
	return l.send(datachannel.HandshakeComplete, map[string]any{"HandshakeTimeToComplete": l.s.clock.Since(began), "CustomerMessage": customerMessage(key)})
}

func customerMessage(key string) string {
	if key == "" {
		return ""
	}
	return "This session is encrypted using AWS KMS."
}

func (l *live) send(payload uint32, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.channel.Send(payload, b)
}

// encrypt gets the session's keys from KMS as the instance's role, and checks that the client has them too.
func (l *live) encrypt() error {
	var result struct{ KMSCipherTextKey []byte }
	for _, a := range l.response.ProcessedClientActions {
		if a.ActionType == actionKMS {
			if err := json.Unmarshal(a.ActionResult, &result); err != nil {
				return errors.New("the client's data key is not readable")
			}
		}
	}
	if len(result.KMSCipherTextKey) == 0 {
		return errors.New("the client has not processed the action " + actionKMS)
	}
	key, err := l.dataKey(result.KMSCipherTextKey)
	if err != nil {
		return fmt.Errorf("Fetching data key failed: Unable to retrieve data key, Error when decrypting data key %w", err) //nolint:staticcheck // AWS's text
	}
	sealer, err := datachannel.NewSealer(key)
	if err != nil {
		return err
	}
	challenge := make([]byte, 64)
	_, _ = rand.Read(challenge) // never fails
	if err := l.send(datachannel.EncChallengeRequest, map[string][]byte{"Challenge": sealer.Seal(challenge)}); err != nil {
		return err
	}
	select {
	case proof := <-l.proof:
		if answer, err := sealer.Open(proof); err != nil || !bytes.Equal(answer, challenge) {
			return errors.New("Encryption challenge does not match") //nolint:staticcheck // shown to the client
		}
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
	l.channel.Encrypt(sealer)
	return nil
}

// dataKey decrypts the session's data key. Its errors are worded as those of AWS's agent.
func (l *live) dataKey(ciphertext []byte) ([]byte, error) {
	if l.s.kms == nil {
		return nil, awserr.NotImplemented("encrypted sessions without KMS")
	}
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	ctx, err := l.s.fleet.As(ctx, l.rec.Target, "kms")
	if err != nil {
		return nil, err
	}
	out, err := l.s.kms.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: ciphertext, EncryptionContext: map[string]string{"aws:ssm:SessionId": l.rec.ID, "aws:ssm:TargetId": l.rec.Target}})
	if err != nil {
		if e, ok := errors.AsType[smithy.APIError](err); ok {
			return nil, errors.New(e.ErrorCode() + ": " + e.ErrorMessage())
		}
		return nil, err
	}
	return out.Plaintext, nil
}
