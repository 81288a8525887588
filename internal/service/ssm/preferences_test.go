package ssm_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// prefer creates the account's preferences, or replaces them.
func (w *world) prefer(t testing.TB, inputs string) {
	t.Helper()
	content := `{"schemaVersion":"1.0","description":"` + t.Name() + fmt.Sprint(time.Now().UnixNano()) + `","sessionType":"Standard_Stream","inputs":` + inputs + `}`
	name := aws.String("SSM-SessionManagerRunShell")
	_, err := w.client.CreateDocument(t.Context(), &awsssm.CreateDocumentInput{Name: name, DocumentType: "Session", Content: &content})
	if err == nil {
		return
	}
	out, err := w.client.UpdateDocument(t.Context(), &awsssm.UpdateDocumentInput{Name: name, Content: &content, DocumentVersion: aws.String("$LATEST")})
	if err == nil {
		_, err = w.client.UpdateDocumentDefaultVersion(t.Context(), &awsssm.UpdateDocumentDefaultVersionInput{Name: name, DocumentVersion: out.DocumentDescription.LatestVersion})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// open starts a session, with instanceID by default, and its client.
func (w *world) open(t testing.TB, c *awsssm.Client, in *awsssm.StartSessionInput, edit func(*plugin, *awsssm.StartSessionOutput)) *plugin {
	t.Helper()
	if in.Target == nil {
		in.Target = aws.String(instanceID)
	}
	out, err := c.StartSession(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, out, "1.2.707.0")
	if edit != nil {
		edit(p, out)
	}
	go p.run()
	return p
}

// user creates an IAM user and returns its client.
func (w *world) user(t testing.TB, name, statements string) aws.CredentialsProvider {
	t.Helper()
	owner, ctx := awsiam.NewFromConfig(w.AWSConfig(w.fleet.account)), t.Context()
	if _, err := owner.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name}); err != nil {
		t.Fatal(err)
	}
	document := `{"Version":"2012-10-17","Statement":[` + statements + `]}`
	if _, err := owner.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &document}); err != nil {
		t.Fatal(err)
	}
	k, err := owner.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return credentials.NewStaticCredentialsProvider(*k.AccessKey.AccessKeyId, *k.AccessKey.SecretAccessKey, "")
}

func TestRunAs(t *testing.T) {
	w := newWorld(t, nil)
	w.prefer(t, `{"runAsEnabled":true,"runAsDefaultUser":"ec2-user","shellProfile":{"linux":"cd /tmp\nexport X=1"}}`)
	p := w.open(t, w.client, &awsssm.StartSessionInput{}, nil)
	if got := p.expect("export X=1\n"); !strings.HasPrefix(got, "ec2-user cd /tmp\n") {
		t.Errorf("the session prints %q", got)
	}
	w.fleet.missing = "ec2-user"
	p = w.open(t, w.client, &awsssm.StartSessionInput{}, nil)
	if why := p.ended(); why != "----------ERROR-------\nUnable to start shell: failed to start pty since RunAs user ec2-user does not exist" {
		t.Errorf("ended with %q", why)
	}
	// The caller's tag names another user, also for other documents, whose commands may run as root.
	keys := w.user(t, "carl", `{"Effect":"Allow","Action":"ssm:StartSession","Resource":"*"}`)
	carl := awsssm.NewFromConfig(w.AWSConfigWith(keys))
	w.tag(t, "carl", "SSMSessionRunAs", "deploy")
	p = w.open(t, carl, &awsssm.StartSessionInput{DocumentName: aws.String("AWS-StartInteractiveCommand"), Parameters: map[string][]string{"command": {"top"}}}, nil)
	p.expect("deploy sh -c top")
	w.create(t, "root-shell", "Session", `{"schemaVersion":"1.0","sessionType":"InteractiveCommands","parameters":{"unit":{"type":"String","allowedPattern":"^[a-z-]+$"}},
		"properties":{"linux":{"commands":"journalctl -u {{unit}}","runAsElevated":true}}}`)
	p = w.open(t, carl, &awsssm.StartSessionInput{DocumentName: aws.String("root-shell"), Parameters: map[string][]string{"unit": {"kubelet"}}}, nil)
	p.expect("root sh -c journalctl -u kubelet")
	_, err := carl.StartSession(t.Context(), &awsssm.StartSessionInput{Target: aws.String(instanceID), DocumentName: aws.String("root-shell"), Parameters: map[string][]string{"unit": {"x; reboot"}}})
	testkit.WantError(t, err, "InvalidParameters", `Parameter "unit" has value "x; reboot" not matching "^[a-z-]+$".`)
	w.prefer(t, `{"runAsEnabled":true}`)
	if why := w.open(t, w.client, &awsssm.StartSessionInput{}, nil).ended(); why != "----------ERROR-------\nUnable to start shell: please set the RunAs default user" {
		t.Errorf("ended with %q", why)
	}
}

func (w *world) tag(t testing.TB, user, key, value string) {
	t.Helper()
	_, err := awsiam.NewFromConfig(w.AWSConfig(w.fleet.account)).TagUser(t.Context(), &awsiam.TagUserInput{UserName: &user, Tags: []iamtypes.Tag{{Key: &key, Value: &value}}})
	if err != nil {
		t.Fatal(err)
	}
}

// as makes calls of the instance's role run as the user with the given keys.
func (w *world) as(t testing.TB, keys aws.CredentialsProvider) {
	t.Helper()
	c, err := keys.Retrieve(t.Context())
	if err == nil {
		_, w.fleet.role, err = w.users.LookupAccessKey(t.Context(), c.AccessKeyID)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTimeoutsOfPreferences(t *testing.T) {
	for inputs, why := range map[string]string{
		`{"idleSessionTimeout":"2","maxSessionDuration":"30"}`: "Your session timed out due to inactivity.",
		`{"idleSessionTimeout":"60","maxSessionDuration":"2"}`: "Your session timed out due to maximum session duration.",
	} {
		clock := clocktesting.NewFakeClock(time.Now())
		w := newWorld(t, clock)
		w.prefer(t, inputs)
		p := w.open(t, w.client, &awsssm.StartSessionInput{}, nil)
		p.expect("sh")
		testkit.Eventually(t, 10*time.Second, func() error {
			if clock.Waiters() > 1 { // one is the ticker of the reconciler of associations
				clock.Step(20 * time.Second)
			}
			select {
			case got := <-p.closed:
				if got != why {
					t.Errorf("%s: ended with %q", inputs, got)
				}
				return nil
			default:
				return errors.New("the session goes on")
			}
		})
	}
}

// TestTimeoutOfHandshake checks that a client has a minute for the handshake, whatever else it sends.
func TestTimeoutOfHandshake(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, clock)
	p := w.open(t, w.client, &awsssm.StartSessionInput{}, func(p *plugin, _ *awsssm.StartSessionOutput) { p.mute = true })
	for range 20 { // two minutes
		_ = p.write(payloadOutput, []byte("x"))              // the session may have ended
		testkit.Eventually(t, 10*time.Second, func() error { // until the frame has been handled
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.acked < p.next && len(p.closed) == 0 {
				return errors.New("not acknowledged")
			}
			return nil
		})
		clock.Step(6 * time.Second)
	}
	if why := p.ended(); why != "Your session timed out due to inactivity." {
		t.Errorf("ended with %q", why)
	}
}

// encryption makes a client of encrypted sessions, as the plugin does.
func encryption(keys *awskms.Client, p *plugin, out *awsssm.StartSessionOutput, forge bool) {
	p.action = func(id string) (any, error) {
		key, err := keys.GenerateDataKey(context.Background(), &awskms.GenerateDataKeyInput{
			KeyId: &id, NumberOfBytes: aws.Int32(64), EncryptionContext: map[string]string{"aws:ssm:SessionId": *out.SessionId, "aws:ssm:TargetId": instanceID},
		})
		if err != nil {
			return nil, fmt.Errorf("Error calling KMS GenerateDataKey API: %w", err)
		}
		if forge {
			_, _ = rand.Read(key.Plaintext) // never fails
		}
		aead := func(key []byte) cipher.AEAD {
			block, err := aes.NewCipher(key)
			if err != nil {
				p.t.Fatal(err)
			}
			out, err := cipher.NewGCM(block)
			if err != nil {
				p.t.Fatal(err)
			}
			return out
		}
		opening, sealing := aead(key.Plaintext[:32]), aead(key.Plaintext[32:])
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open = func(b []byte) []byte {
			text, err := opening.Open(nil, b[:12], b[12:], nil)
			if err != nil && !forge {
				p.t.Error(err)
			}
			return text
		}
		p.seal = func(b []byte) []byte {
			nonce := make([]byte, 12)
			_, _ = rand.Read(nonce) // never fails
			return sealing.Seal(nonce, nonce, b, nil)
		}
		return map[string]any{"KMSCipherTextKey": key.CiphertextBlob, "KMSCipherTextHash": nil}, nil
	}
}

func TestEncryptedSessions(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	owner := awskms.NewFromConfig(w.AWSConfig(w.fleet.account))
	key, err := owner.CreateKey(ctx, &awskms.CreateKeyInput{})
	if err != nil {
		t.Fatal(err)
	}
	w.prefer(t, `{"kmsKeyId":"`+*key.KeyMetadata.Arn+`"}`)
	p := w.open(t, w.client, &awsssm.StartSessionInput{}, func(p *plugin, out *awsssm.StartSessionOutput) { encryption(owner, p, out, false) })
	p.expect("ssm-user sh")
	if _, err := io.WriteString(p, "secret"); err != nil {
		t.Fatal(err)
	}
	p.expect("secret")
	if p.message == "" {
		t.Error("the client is not told that the session is encrypted")
	}
	w.fleet.dial = greeter
	port := w.open(t, w.client, &awsssm.StartSessionInput{DocumentName: aws.String("AWS-StartPortForwardingSession")}, func(p *plugin, out *awsssm.StartSessionOutput) { encryption(owner, p, out, false) })
	await(t, "the handshake is not completed", port.complete)
	if got := say(t, stream(t, port.mux()), "hello"); got != "localhost:80" {
		t.Errorf("connected to %q", got)
	}

	// A client that does not answer the handshake reaches no port.
	w.fleet.dial = func(context.Context, string, int) (net.Conn, error) {
		t.Error("a session without a handshake is connected to its port")
		return nil, errors.New("refused")
	}
	mute := w.open(t, w.client, &awsssm.StartSessionInput{DocumentName: aws.String("AWS-StartPortForwardingSession")}, func(p *plugin, _ *awsssm.StartSessionOutput) { p.mute = true })
	if _, err := io.WriteString(mute, "in clear text"); err != nil {
		t.Fatal(err)
	}
	if err := mute.write(payloadFlag, []byte{0, 0, 0, 2}); err != nil { // TerminateSession
		t.Fatal(err)
	}
	if why := mute.ended(); why != "" {
		t.Errorf("ended with %q", why)
	}

	// A client with another key.
	p = w.open(t, w.client, &awsssm.StartSessionInput{}, func(p *plugin, out *awsssm.StartSessionOutput) { encryption(owner, p, out, true) })
	if why := p.ended(); !strings.Contains(why, "Encryption challenge") {
		t.Errorf("ended with %q", why)
	}
	// A client that may not use the key.
	denied := w.user(t, "carl", `{"Effect":"Deny","Action":"kms:*","Resource":"*"}`)
	carl := awskms.NewFromConfig(w.AWSConfigWith(denied))
	p = w.open(t, w.client, &awsssm.StartSessionInput{}, func(p *plugin, out *awsssm.StartSessionOutput) { encryption(carl, p, out, false) })
	if why := p.ended(); !strings.HasPrefix(why, "----------ERROR-------\nEncountered error while initiating handshake. KMSEncryption failed on client with status 2 error: Failed to process action KMSEncryption: Error calling KMS GenerateDataKey API: ") || !strings.Contains(why, "AccessDeniedException") {
		t.Errorf("ended with %q", why)
	}
	// An instance whose role may not use the key.
	w.as(t, denied)
	p = w.open(t, w.client, &awsssm.StartSessionInput{}, func(p *plugin, out *awsssm.StartSessionOutput) { encryption(owner, p, out, false) })
	if why := p.ended(); !strings.HasPrefix(why, "----------ERROR-------\nEncountered error while initiating handshake. Fetching data key failed: Unable to retrieve data key, Error when decrypting data key AccessDeniedException: ") {
		t.Errorf("ended with %q", why)
	}
}

func TestLogsOfSessions(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	groups, keys := awslogs.NewFromConfig(w.AWSConfig(w.fleet.account)), awskms.NewFromConfig(w.AWSConfig(w.fleet.account))
	buckets := awss3.NewFromConfig(w.AWSConfig(w.fleet.account), func(o *awss3.Options) { o.UsePathStyle = true })
	bucket := aws.String("sessions-" + w.fleet.account)
	if _, err := buckets.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	session := func(command string) (id, why string) {
		t.Helper()
		p := w.open(t, w.client, &awsssm.StartSessionInput{DocumentName: aws.String("AWS-StartNonInteractiveCommand"), Parameters: map[string][]string{"command": {command}}}, func(_ *plugin, out *awsssm.StartSessionOutput) { id = *out.SessionId })
		go func() { _, _ = io.Copy(io.Discard, p.output) }() // until the session ends
		return id, p.ended()
	}
	events := func(group, stream string) (messages []string) {
		t.Helper()
		out, err := groups.GetLogEvents(ctx, &awslogs.GetLogEventsInput{LogGroupName: &group, LogStreamName: &stream, StartFromHead: aws.Bool(true)})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out.Events {
			messages = append(messages, *e.Message)
		}
		return messages
	}

	w.prefer(t, `{"cloudWatchLogGroupName":"plain","s3BucketName":"`+*bucket+`","s3KeyPrefix":"logs/of","s3EncryptionEnabled":true}`)
	id, why := session("\x1b[1mbold\x1b[0m text")
	if why != "" {
		t.Errorf("ended with %q", why)
	}
	if got := events("plain", id); len(got) != 1 || got[0] != "ssm-userbold text" {
		t.Errorf("the log has %q", got)
	}
	object, err := buckets.GetObject(ctx, &awss3.GetObjectInput{Bucket: bucket, Key: aws.String("logs/of/" + id + ".log")})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(object.Body); err != nil || string(b) != "ssm-userbold text" {
		t.Errorf("the object has %q, %v", b, err)
	}

	w.prefer(t, `{"cloudWatchLogGroupName":"plain","cloudWatchStreamingEnabled":true}`)
	id, _ = session("line")
	var event struct {
		SessionID, RunAsUser string
		SessionData          []string
		UserIdentity         struct{ ARN string }
	}
	if got := events("plain", id); len(got) != 1 || json.Unmarshal([]byte(got[0]), &event) != nil || event.SessionID != id || event.RunAsUser != "ssm-user" || strings.Join(event.SessionData, "|") != "ssm-userline" || event.UserIdentity.ARN == "" {
		t.Errorf("the stream has %q", got)
	}

	// Long output is split into several events. JSON's escapes make none of them too long, and no character is cut in two.
	long := strings.Repeat("<é", 30_000)
	id, _ = session(long)
	var logged string
	for _, message := range events("plain", id) {
		event.SessionData = nil
		if err := json.Unmarshal([]byte(message), &event); err != nil {
			t.Fatal(err)
		}
		logged += strings.Join(event.SessionData, "|")
	}
	if logged != "ssm-user"+long {
		t.Errorf("%d bytes of %d are logged", len(logged), len("ssm-user"+long))
	}

	w.prefer(t, `{"cloudWatchLogGroupName":"plain","cloudWatchEncryptionEnabled":true}`)
	if _, why := session("x"); why != "----------ERROR-------\nWe couldn't start the session because encryption is not set up on the selected CloudWatch Logs log group. Either encrypt the log group or choose an option to enable logging without encryption." {
		t.Errorf("ended with %q", why)
	}
	key, err := keys.CreateKey(ctx, &awskms.CreateKeyInput{Policy: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"kms:*","Resource":"*"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := groups.AssociateKmsKey(ctx, &awslogs.AssociateKmsKeyInput{LogGroupName: aws.String("plain"), KmsKeyId: key.KeyMetadata.Arn}); err != nil {
		t.Fatal(err)
	}
	if _, why := session("x"); why != "" {
		t.Errorf("ended with %q", why)
	}
	w.prefer(t, `{"s3BucketName":"missing","s3EncryptionEnabled":true}`)
	if _, why := session("x"); !strings.HasPrefix(why, "----------ERROR-------\nCouldn't start the session because we are unable to validate encryption on Amazon S3 bucket. Error: NoSuchBucket: ") {
		t.Errorf("ended with %q", why)
	}
	// The role of the instance may not write. The session still works.
	w.as(t, w.user(t, "carl", `{"Effect":"Deny","Action":"*","Resource":"*"}`))
	w.prefer(t, `{"cloudWatchLogGroupName":"plain"}`)
	if _, why := session("x"); why != "" {
		t.Errorf("ended with %q", why)
	}
}

// TestStreamedLogsAreSentAgain checks that a session's output is not lost while its log cannot be written.
func TestStreamedLogsAreSentAgain(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, clock)
	w.prefer(t, `{"cloudWatchLogGroupName":"streamed","cloudWatchStreamingEnabled":true}`)
	may := w.fleet.role
	w.as(t, w.user(t, "carl", `{"Effect":"Deny","Action":"*","Resource":"*"}`))
	var id string
	p := w.open(t, w.client, &awsssm.StartSessionInput{}, func(_ *plugin, out *awsssm.StartSessionOutput) { id = *out.SessionId })
	p.expect("ssm-user sh")
	if _, err := io.WriteString(p, "first line\n"); err != nil {
		t.Fatal(err)
	}
	p.expect("first line")
	// The reconciler of associations has a ticker. Once the log and the time limit of the session have a timer, too, the log
	// has been sent.
	waiting := func() {
		t.Helper()
		testkit.Eventually(t, 10*time.Second, func() error {
			if n := clock.Waiters(); n < 3 {
				return fmt.Errorf("%d timers", n)
			}
			return nil
		})
	}
	waiting()
	clock.Step(2 * time.Second)
	waiting()
	w.fleet.role = may
	if err := p.write(payloadFlag, []byte{0, 0, 0, 2}); err != nil { // TerminateSession
		t.Fatal(err)
	}
	p.ended()
	groups := awslogs.NewFromConfig(w.AWSConfig(w.fleet.account))
	testkit.Eventually(t, 10*time.Second, func() error {
		out, err := groups.GetLogEvents(t.Context(), &awslogs.GetLogEventsInput{LogGroupName: aws.String("streamed"), LogStreamName: &id})
		if err == nil && (len(out.Events) != 1 || !strings.Contains(*out.Events[0].Message, "first line")) {
			err = fmt.Errorf("%+v", out.Events)
		}
		return err
	})
}

// TestSessionDocumentAccessCheck checks that a policy with ssm:SessionDocumentAccessCheck allows only sessions whose
// document the caller may use, even if the request does not name one.
func TestSessionDocumentAccessCheck(t *testing.T) {
	w := newWorld(t, nil)
	w.create(t, "mine", "Session", `{"schemaVersion":"1.0","sessionType":"InteractiveCommands","properties":{"linux":{"commands":"top"}}}`)
	const instances = `"arn:aws:ec2:*:*:instance/*"`
	start := func(name, resources, condition, document string) error {
		c := awsssm.NewFromConfig(w.AWSConfigWith(w.user(t, name, `{"Effect":"Allow","Action":"ssm:StartSession","Resource":[`+resources+`]`+condition+`}`)))
		in := &awsssm.StartSessionInput{Target: aws.String(instanceID)}
		if document != "" {
			in.DocumentName = &document
		}
		_, err := c.StartSession(t.Context(), in)
		return err
	}
	const check = `,"Condition":{"BoolIfExists":{"ssm:SessionDocumentAccessCheck":"true"}}`
	mine := `"arn:aws:ssm:*:*:document/mine"`
	for name, err := range map[string]error{
		"the default document is not checked":         start("a", instances, "", ""),
		"a document of one's own":                     start("b", instances+","+mine, check, "mine"),
		"the default document is allowed":             start("c", instances+`,"arn:aws:ssm:*:*:document/SSM-SessionManagerRunShell"`, check, ""),
		"a document of AWS's, whose ARN has no owner": start("d", instances+`,"arn:aws:ssm:us-east-1::document/AWS-StartSSHSession"`, "", "AWS-StartSSHSession"),
		"a document by its ARN":                       start("e", instances+","+mine, "", "arn:aws:ssm:us-east-1:"+w.fleet.account+":document/mine"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.WantErrorWith(t, start("f", instances+","+mine, check, ""), "AccessDeniedException", "user/f is not authorized to perform: ssm:StartSession on resource: arn:aws:ssm:us-east-1:"+w.fleet.account+":document/SSM-SessionManagerRunShell")
	testkit.WantErrorWith(t, start("g", instances, "", "mine"), "AccessDeniedException", "on resource: arn:aws:ssm:us-east-1:"+w.fleet.account+":document/mine")
	testkit.WantErrorWith(t, start("h", mine, "", ""), "AccessDeniedException", "on resource: arn:aws:ec2:us-east-1:"+w.fleet.account+":instance/"+instanceID)
}
