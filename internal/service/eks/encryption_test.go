package eks_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func encryptWith(key string) []ekstypes.EncryptionConfig {
	return []ekstypes.EncryptionConfig{{Resources: []string{"secrets"}, Provider: &ekstypes.Provider{KeyArn: &key}}}
}

func (w *world) encryptedCluster(name, key string) *ekstypes.Cluster {
	w.Helper()
	in := w.createInput(name)
	in.EncryptionConfig = encryptWith(key)
	if _, err := w.client.CreateCluster(w.Context(), in); err != nil {
		w.Fatal(err)
	}
	return w.waitCluster(name, ekstypes.ClusterStatusActive)
}

func TestAnEncryptedCluster(t *testing.T) {
	w := newWorld(t)
	c := w.encryptedCluster("dev", goodAlias)
	if diff := cmp.Diff(encryptWith(goodKey), c.EncryptionConfig, ignoreSerde); diff != "" {
		t.Errorf("encryptionConfig (-want +got):\n%s", diff)
	}
	plane, _ := w.planes.only()
	if got := w.planes.encrypted[plane.ID]; got != goodKey {
		t.Errorf("the control plane encrypts with %q", got)
	}
	grants := w.keys.granted()
	if len(grants) != 1 {
		t.Fatalf("%d grants", len(grants))
	}
	for _, g := range grants {
		want := []kmstypes.GrantOperation{kmstypes.GrantOperationEncrypt, kmstypes.GrantOperationDecrypt, kmstypes.GrantOperationDescribeKey}
		if diff := cmp.Diff(want, g.Operations); diff != "" || *g.GranteePrincipal != w.arn("role/cluster") || *g.KeyId != goodKey {
			t.Errorf("grant %+v", g)
		}
	}
	if _, err := w.client.AssociateEncryptionConfig(t.Context(), &awseks.AssociateEncryptionConfigInput{ClusterName: c.Name, EncryptionConfig: encryptWith(goodKey)}); err == nil {
		t.Error("encrypted twice")
	} else {
		wantError(t, err, "InvalidParameterException", "Encryption is already enabled on the cluster")
	}
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: c.Name}); err != nil {
		t.Fatal(err)
	}
	w.eventually(func() error {
		_, err := w.client.DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: c.Name})
		if !isCode(err, "ResourceNotFoundException") {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
	if grants := w.keys.granted(); len(grants) != 0 {
		t.Errorf("grants are left: %v", grants)
	}
}

func TestEncryptionConfigIsRefused(t *testing.T) {
	w := newWorld(t)
	w.cluster("plain", ekstypes.AuthenticationModeApi)
	key := func(name string) []ekstypes.EncryptionConfig {
		return encryptWith("arn:aws:kms:us-east-1:111122223333:key/" + name)
	}
	for name, tt := range map[string]struct {
		config        []ekstypes.EncryptionConfig
		denied        string
		roleDenied    bool
		code, message string
	}{
		"two":                           {append(key("good"), key("good")...), "", false, "InvalidParameterException", "Only one encryptionConfig is supported."},
		"other resources":               {[]ekstypes.EncryptionConfig{{Resources: []string{"configmaps"}, Provider: key("good")[0].Provider}}, "", false, "InvalidParameterException", "Invalid k8s resource for encryption"},
		"no provider":                   {[]ekstypes.EncryptionConfig{{Resources: []string{"secrets"}}}, "", false, "InvalidParameterException", "KeyArn is required"},
		"no key":                        {encryptWith(""), "", false, "InvalidParameterException", "KeyArn is required"},
		"a key ID":                      {encryptWith("1234abcd-12ab-34cd-56ef-1234567890ab"), "", false, "InvalidParameterException", "The keyArn for encryptionConfig is invalid."},
		"another service's ARN":         {encryptWith("arn:aws:iam::111122223333:role/x"), "", false, "InvalidParameterException", "The keyArn for encryptionConfig is invalid."},
		"neither key nor alias":         {encryptWith("arn:aws:kms:us-east-1:111122223333:grant/x"), "", false, "InvalidParameterException", "The keyArn for encryptionConfig is invalid."},
		"another region":                {encryptWith("arn:aws:kms:eu-west-1:111122223333:key/good"), "", false, "InvalidParameterException", "The keyArn for encryptionConfig is scoped to invalid aws region."},
		"no such key":                   {key("nowhere"), "", false, "InvalidParameterException", "The KeyArn in encryptionConfig provider arn:aws:kms:us-east-1:111122223333:key/nowhere is not found."},
		"an asymmetric key":             {key("asymmetric"), "", false, "InvalidParameterException", "KMS key arn:aws:kms:us-east-1:111122223333:key/asymmetric is not a symmetric key that can encrypt and decrypt data."},
		"a key for something else":      {key("signing"), "", false, "InvalidParameterException", "KMS key arn:aws:kms:us-east-1:111122223333:key/signing is not a symmetric key that can encrypt and decrypt data."},
		"a disabled key":                {key("disabled"), "", false, "InvalidParameterException", "KMS key arn:aws:kms:us-east-1:111122223333:key/disabled is disabled"},
		"a key that is pending":         {key("ending"), "", false, "InvalidParameterException", "KMS key arn:aws:kms:us-east-1:111122223333:key/ending is marked for deletion"},
		"a key without material":        {key("importing"), "", false, "InvalidParameterException", "KMS key arn:aws:kms:us-east-1:111122223333:key/importing cannot be used: it is in the state PendingImport"},
		"a caller who may not look":     {key("good"), "kms:DescribeKey", false, "InvalidRequestException", "User not authorized to perform kms:DescribeKey operation"},
		"a caller who may not grant":    {key("good"), "kms:CreateGrant", false, "InvalidRequestException", "User not authorized to perform kms:CreateGrant operation"},
		"a role that is denied the key": {key("good"), "", true, "InvalidParameterException", "Access denied to KMS key arn:aws:kms:us-east-1:111122223333:key/good due to explicit deny policy or revoked grant"},
	} {
		t.Run(name, func(t *testing.T) {
			w.keys.mu.Lock()
			w.keys.denied, w.keys.roleDenied = map[string]bool{tt.denied: true}, tt.roleDenied
			w.keys.mu.Unlock()
			in := w.createInput("refused")
			in.EncryptionConfig = tt.config
			_, err := w.client.CreateCluster(t.Context(), in)
			wantError(t, err, tt.code, tt.message)
			_, err = w.client.AssociateEncryptionConfig(t.Context(), &awseks.AssociateEncryptionConfigInput{ClusterName: aws.String("plain"), EncryptionConfig: tt.config})
			wantError(t, err, tt.code, tt.message)
		})
	}
	if grants := w.keys.granted(); len(grants) != 0 {
		t.Errorf("refusals leave grants behind: %v", grants)
	}
	if c := w.waitCluster("plain", ekstypes.ClusterStatusActive); c.EncryptionConfig != nil {
		t.Errorf("encryptionConfig %v", c.EncryptionConfig)
	}
}

func TestAssociateEncryptionConfig(t *testing.T) {
	w := newWorld(t)
	dev := w.cluster("dev", ekstypes.AuthenticationModeApi).Name
	encrypting := make(chan struct{})
	w.planes.mu.Lock()
	w.planes.encrypting = func(string) error {
		select {
		case <-encrypting:
			return nil
		default:
			return errors.New("the API server does not encrypt yet")
		}
	}
	w.planes.mu.Unlock()
	in := &awseks.AssociateEncryptionConfigInput{
		ClusterName: dev, ClientRequestToken: aws.String("once"),
		EncryptionConfig: []ekstypes.EncryptionConfig{{Provider: &ekstypes.Provider{KeyArn: aws.String(goodKey)}}}, // without resources, which means secrets
	}
	out, err := w.client.AssociateEncryptionConfig(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.client.AssociateEncryptionConfig(t.Context(), in)
	if err != nil || *again.Update.Id != *out.Update.Id {
		t.Errorf("with the same token: %v, %v", again, err)
	}
	want := []ekstypes.UpdateParam{{Type: ekstypes.UpdateParamTypeEncryptionConfig, Value: aws.String(`[{"provider":{"keyArn":"` + goodKey + `"},"resources":["secrets"]}]`)}}
	if diff := cmp.Diff(want, out.Update.Params, ignoreSerde); diff != "" || out.Update.Type != ekstypes.UpdateTypeAssociateEncryptionConfig || out.Update.Status != ekstypes.UpdateStatusInProgress {
		t.Errorf("update %+v\n%s", out.Update, diff)
	}

	// In the meantime, nothing else may change.
	_, err = w.client.UpdateClusterConfig(t.Context(), &awseks.UpdateClusterConfigInput{Name: dev, DeletionProtection: aws.Bool(true)})
	wantError(t, err, "ResourceInUseException", "Cannot DeletionProtectionUpdate because cluster dev currently has update "+*out.Update.Id+" in progress")
	_, err = w.client.AssociateEncryptionConfig(t.Context(), &awseks.AssociateEncryptionConfigInput{ClusterName: dev, EncryptionConfig: encryptWith(goodKey)})
	wantError(t, err, "ResourceInUseException", "Cannot AssociateEncryptionConfig because cluster dev currently has update "+*out.Update.Id+" in progress")
	if c := w.waitCluster("dev", ekstypes.ClusterStatusUpdating); c.EncryptionConfig != nil {
		t.Errorf("encrypted before it is: %v", c.EncryptionConfig)
	}

	close(encrypting)
	w.restart()
	c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
	if diff := cmp.Diff(encryptWith(goodKey), c.EncryptionConfig, ignoreSerde); diff != "" {
		t.Errorf("encryptionConfig (-want +got):\n%s", diff)
	}
	up, err := w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: dev, UpdateId: out.Update.Id})
	if err != nil || up.Update.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("update %+v, %v", up, err)
	}
	if n := len(w.keys.granted()); n != 1 {
		t.Errorf("%d grants", n)
	}
	_, err = w.client.AssociateEncryptionConfig(t.Context(), &awseks.AssociateEncryptionConfigInput{ClusterName: aws.String("nowhere"), EncryptionConfig: encryptWith(goodKey)})
	wantError(t, err, "ResourceNotFoundException", "No cluster found for name: nowhere.")
}

func TestAnUpdateThatCannotEncryptFails(t *testing.T) {
	w := newWorld(t, withClock, func(w *world) { w.pace = 5 * time.Minute })
	dev := w.cluster("dev", ekstypes.AuthenticationModeApi).Name
	w.planes.mu.Lock()
	w.planes.encrypting = func(string) error { return errors.New("the API server does not encrypt") }
	w.planes.mu.Unlock()
	out, err := w.client.AssociateEncryptionConfig(t.Context(), &awseks.AssociateEncryptionConfigInput{ClusterName: dev, EncryptionConfig: encryptWith(goodKey)})
	if err != nil {
		t.Fatal(err)
	}
	w.keys.change("good", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStateDisabled })
	c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
	if c.EncryptionConfig != nil {
		t.Errorf("encryptionConfig %v", c.EncryptionConfig)
	}
	up, err := w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: dev, UpdateId: out.Update.Id})
	if err != nil {
		t.Fatal(err)
	}
	want := []ekstypes.ErrorDetail{{ErrorCode: ekstypes.ErrorCodeAccessDenied, ErrorMessage: aws.String("KMS key " + goodKey + " is disabled"), ResourceIds: []string{goodKey}}}
	if diff := cmp.Diff(want, up.Update.Errors, ignoreSerde); diff != "" || up.Update.Status != ekstypes.UpdateStatusFailed {
		t.Errorf("update %s (-want +got):\n%s", up.Update.Status, diff)
	}
}

// A control plane keeps the key that it has adopted: the cluster shows the key, monitors it, and
// cannot have another one.
func TestAKeyThatWasTakenStays(t *testing.T) {
	w := newWorld(t, withClock, func(w *world) { w.pace = 5 * time.Minute })
	dev := w.cluster("dev", ekstypes.AuthenticationModeApi).Name
	w.planes.mu.Lock()
	w.planes.encrypting = func(id string) error {
		w.planes.taken[id] = goodKey
		return errors.New("etcdserver: request timed out")
	}
	w.planes.mu.Unlock()
	associate := func(key string) (*awseks.AssociateEncryptionConfigOutput, error) {
		return w.client.AssociateEncryptionConfig(t.Context(), &awseks.AssociateEncryptionConfigInput{ClusterName: dev, EncryptionConfig: encryptWith(key)})
	}
	if _, err := associate(goodKey); err != nil {
		t.Fatal(err)
	}
	w.keys.change("good", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStateDisabled })
	wantDisabled := func(when string) {
		t.Helper()
		out, err := w.client.DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: dev})
		if err != nil {
			t.Fatal(err)
		}
		if issues := out.Cluster.Health.Issues; len(issues) != 1 || issues[0].Code != ekstypes.ClusterIssueCodeKmsKeyDisabled {
			t.Errorf("%s (%s) the issues are %+v", when, out.Cluster.Status, issues)
		}
	}
	wantDisabled("while it is taken")
	c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
	if diff := cmp.Diff(encryptWith(goodKey), c.EncryptionConfig, ignoreSerde); diff != "" {
		t.Errorf("encryptionConfig (-want +got):\n%s", diff)
	}
	wantDisabled("after the update has failed")
	const half = "the control plane encrypts new data with " + goodKey + ", but not all older data yet"
	w.wantNote(half, true)
	if n := len(w.keys.granted()); n != 1 {
		t.Errorf("%d grants", n)
	}
	w.keys.change("good", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStateEnabled })

	_, err := associate("arn:aws:kms:us-east-1:111122223333:key/other")
	wantError(t, err, "InvalidParameterException", "Encryption is already enabled on the cluster")
	if n := len(w.keys.granted()); n != 1 {
		t.Errorf("%d grants after a refusal", n)
	}
	w.planes.mu.Lock()
	w.planes.encrypting = nil
	w.planes.mu.Unlock()
	again, err := associate(goodKey)
	if err != nil {
		t.Fatal(err)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.wantNote(half, false)
	up, err := w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: dev, UpdateId: again.Update.Id})
	if err != nil || up.Update.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("update %+v, %v", up, err)
	}
	_, err = associate(goodKey)
	wantError(t, err, "InvalidParameterException", "Encryption is already enabled on the cluster")
}

// A temporary failure of KMS is not the request's fault, and says nothing about the key.
func TestTroubleOfKMSIsNoIssueOfAKey(t *testing.T) {
	w := newWorld(t, func(w *world) { w.serverLog = testkit.Log(w, "request failed") })
	w.encryptedCluster("dev", goodKey)
	for _, trouble := range []error{
		&kmstypes.KMSInternalException{Message: aws.String("try again")},
		&smithy.GenericAPIError{Code: "ThrottlingException", Message: "too fast"},
		&kmstypes.DisabledException{Message: aws.String("it was, and is no more")},
	} {
		w.keys.set(func() { w.keys.tried = trouble })
		out, err := w.client.DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: aws.String("dev")})
		if err != nil || len(out.Cluster.Health.Issues) != 0 {
			t.Errorf("%v: issues %+v, %v", trouble, out.Cluster.Health.Issues, err)
		}
		in := w.createInput("second")
		in.EncryptionConfig = encryptWith(goodKey)
		_, err = w.client.CreateCluster(t.Context(), in)
		if resp := (*awshttp.ResponseError)(nil); !errors.As(err, &resp) || resp.HTTPStatusCode() != http.StatusInternalServerError {
			t.Errorf("%v: CreateCluster answers %v", trouble, err)
		}
	}
	if n := len(w.keys.granted()); n != 1 {
		t.Errorf("%d grants", n)
	}
}

func TestParallelCreationsLeaveOneGrant(t *testing.T) {
	w := newWorld(t)
	var granting sync.WaitGroup
	granting.Add(2)
	w.keys.granting = func() { granting.Done(); granting.Wait() } // both arrive before either is recorded
	in := w.createInput("dev")
	in.EncryptionConfig, in.ClientRequestToken = encryptWith(goodKey), aws.String("once")
	var both errgroup.Group
	for range 2 {
		both.Go(func() error {
			_, err := w.client.CreateCluster(t.Context(), in)
			return err
		})
	}
	if err := both.Wait(); err != nil {
		t.Fatal(err)
	}
	if grants := w.keys.granted(); len(grants) != 1 {
		t.Errorf("grants %v", grants)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	if issues := w.waitCluster("dev", ekstypes.ClusterStatusActive).Health.Issues; len(issues) != 0 {
		t.Errorf("issues %+v", issues)
	}
}

func TestADeletionGoesOnUntilTheGrantIsGone(t *testing.T) {
	w := newWorld(t)
	c := w.encryptedCluster("dev", goodKey)
	times := 0
	w.keys.set(func() {
		w.keys.revoked = func() error {
			times++
			return awserr.New("AccessDeniedException", "not now")
		}
	})
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: c.Name}); err != nil {
		t.Fatal(err)
	}
	w.eventually(func() error {
		w.keys.mu.Lock()
		defer w.keys.mu.Unlock()
		if times < 2 {
			return fmt.Errorf("revoked %d times", times)
		}
		return nil
	})
	w.keys.set(func() { w.keys.revoked = nil })
	w.waitGone("dev")
	if grants := w.keys.granted(); len(grants) != 0 {
		t.Errorf("grants are left: %v", grants)
	}
}

func TestTheHealthOfAKeyIsTheClusters(t *testing.T) {
	w := newWorld(t)
	w.encryptedCluster("dev", goodKey)
	issues := func() []ekstypes.ClusterIssue {
		out, err := w.client.DescribeCluster(t.Context(), &awseks.DescribeClusterInput{Name: aws.String("dev")})
		if err != nil {
			t.Fatal(err)
		}
		return out.Cluster.Health.Issues
	}
	state := func(s kmstypes.KeyState) func() {
		return func() { w.keys.change("good", func(m *kmstypes.KeyMetadata) { m.KeyState = s }) }
	}
	saved := w.keys.granted()
	metadata := w.keys.keys[goodKey]
	for _, tt := range []struct {
		code    ekstypes.ClusterIssueCode
		message string
		bad     func()
		good    func()
	}{
		{ekstypes.ClusterIssueCodeKmsKeyDisabled, "KMS key " + goodKey + " is disabled", state(kmstypes.KeyStateDisabled), state(kmstypes.KeyStateEnabled)},
		{ekstypes.ClusterIssueCodeKmsKeyMarkedForDeletion, "KMS key " + goodKey + " is marked for deletion", state(kmstypes.KeyStatePendingDeletion), state(kmstypes.KeyStateEnabled)},
		{
			ekstypes.ClusterIssueCodeKmsGrantRevoked, "Access denied to KMS key " + goodKey + " due to explicit deny policy or revoked grant",
			func() { w.keys.mu.Lock(); clear(w.keys.grants); w.keys.mu.Unlock() },
			func() { w.keys.mu.Lock(); w.keys.grants = saved; w.keys.mu.Unlock() },
		},
		{
			ekstypes.ClusterIssueCodeKmsKeyNotFound, "KMS key " + goodKey + " is not found",
			func() { w.keys.mu.Lock(); delete(w.keys.keys, goodKey); w.keys.mu.Unlock() },
			func() { w.keys.mu.Lock(); w.keys.keys[goodKey] = metadata; w.keys.mu.Unlock() },
		},
	} {
		tt.bad()
		want := []ekstypes.ClusterIssue{{Code: tt.code, Message: &tt.message, ResourceIds: []string{goodKey}}}
		if diff := cmp.Diff(want, issues(), ignoreSerde); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.code, diff)
		}
		tt.good()
		if got := issues(); len(got) != 0 {
			t.Errorf("%s stays: %+v", tt.code, got)
		}
	}
}

func TestAKeyThatIsLostFailsACreation(t *testing.T) {
	w := newWorld(t)
	w.planes.encrypting = func(string) error {
		w.keys.change("good", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStateDisabled })
		return errors.New("the API server does not encrypt")
	}
	in := w.createInput("dev")
	in.EncryptionConfig = encryptWith(goodKey)
	if _, err := w.client.CreateCluster(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	c := w.waitCluster("dev", ekstypes.ClusterStatusFailed)
	if len(c.Health.Issues) != 1 || c.Health.Issues[0].Code != ekstypes.ClusterIssueCodeKmsKeyDisabled {
		t.Errorf("issues %+v", c.Health.Issues)
	}
}

func TestEncryptionWithoutKMS(t *testing.T) {
	w := newWorld(t, func(w *world) { w.noKeys = true })
	in := w.createInput("dev")
	in.EncryptionConfig = encryptWith(goodKey)
	_, err := w.client.CreateCluster(t.Context(), in)
	wantError(t, err, "NotImplemented", "Drydock does not implement secrets encryption (encryptionConfig) without KMS; to see what it implements: drydock supports eks CreateCluster")
}

// ignoreSerde ignores fields that are not members of SDK types.
var ignoreSerde = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore())
