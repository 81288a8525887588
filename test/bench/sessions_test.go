package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
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
	binary.BigEndian.PutUint64(b[40:], uint64(time.Now().UnixMilli())) // the plugin ignores frames without a time
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
	if median(took) > 300*time.Millisecond {
		t.Errorf("StartSession to the prompt took %v, more than 300 ms", median(took))
	}
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
	before := memoryMB([]int{d.PID}, "VmRSS:")[0]
	for _, id := range ids {
		for range 50 {
			defer open(id).Close()
		}
	}
	settle(d.pids(), time.Minute)
	after := memoryMB([]int{d.PID}, "VmRSS:")[0]
	t.Logf("200 idle sessions: the daemon's resident memory grows from %v to %v MB", before, after)
	if after-before > 100 {
		t.Errorf("200 idle sessions take %v MB, more than 100", after-before)
	}
}
