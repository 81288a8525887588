package eks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

const (
	goodKey   = "arn:aws:kms:us-east-1:111122223333:key/good"
	goodAlias = "arn:aws:kms:us-east-1:111122223333:alias/good"
)

// fakeKeys are KMS keys by ARN, and the grants on them.
type fakeKeys struct {
	faults *faults
	mu     sync.Mutex
	keys   map[string]kmstypes.KeyMetadata
	// denied are the actions that users may not do.
	denied map[string]bool
	// roleDenied says that a policy keeps the cluster role from the key.
	roleDenied bool
	grants     map[string]awskms.CreateGrantInput
}

func newKeys(f *faults) *fakeKeys {
	k := &fakeKeys{faults: f, keys: map[string]kmstypes.KeyMetadata{}, denied: map[string]bool{}, grants: map[string]awskms.CreateGrantInput{}}
	for _, name := range []string{"good", "asymmetric", "signing", "disabled", "ending", "importing"} {
		k.keys["arn:aws:kms:us-east-1:111122223333:key/"+name] = kmstypes.KeyMetadata{
			Arn: aws.String("arn:aws:kms:us-east-1:111122223333:key/" + name), KeyId: aws.String(name),
			KeySpec: kmstypes.KeySpecSymmetricDefault, KeyUsage: kmstypes.KeyUsageTypeEncryptDecrypt, KeyState: kmstypes.KeyStateEnabled,
		}
	}
	k.change("asymmetric", func(m *kmstypes.KeyMetadata) { m.KeySpec = kmstypes.KeySpecRsa2048 })
	k.change("signing", func(m *kmstypes.KeyMetadata) { m.KeyUsage = kmstypes.KeyUsageTypeGenerateVerifyMac })
	k.change("disabled", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStateDisabled })
	k.change("ending", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStatePendingDeletion })
	k.change("importing", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStatePendingImport })
	return k
}

func (k *fakeKeys) change(name string, fn func(*kmstypes.KeyMetadata)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.keys["arn:aws:kms:us-east-1:111122223333:key/"+name]
	fn(&m)
	k.keys[*m.Arn] = m
}

func (k *fakeKeys) find(ctx context.Context, action, id string) (kmstypes.KeyMetadata, error) {
	if k.denied[action] && awsapi.CallFrom(ctx).Principal.Type != awsapi.AWSService {
		return kmstypes.KeyMetadata{}, awserr.New("AccessDeniedException", "User is not authorized to perform: "+action)
	}
	if strings.HasSuffix(id, "alias/good") {
		id = goodKey
	}
	m, ok := k.keys[id]
	if !ok {
		return m, &kmstypes.NotFoundException{Message: aws.String("Key '" + id + "' does not exist")}
	}
	return m, nil
}

func (k *fakeKeys) DescribeKey(ctx context.Context, in *awskms.DescribeKeyInput) (*awskms.DescribeKeyOutput, error) {
	if err := k.faults.strike(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	m, err := k.find(ctx, "kms:DescribeKey", *in.KeyId)
	if err != nil {
		return nil, err
	}
	return &awskms.DescribeKeyOutput{KeyMetadata: &m}, nil
}

func (k *fakeKeys) CreateGrant(ctx context.Context, in *awskms.CreateGrantInput) (*awskms.CreateGrantOutput, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.find(ctx, "kms:CreateGrant", *in.KeyId); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("grant-%d", len(k.grants))
	k.grants[id] = *in
	return &awskms.CreateGrantOutput{GrantId: &id}, nil
}

func (k *fakeKeys) RevokeGrant(ctx context.Context, in *awskms.RevokeGrantInput) (*awskms.RevokeGrantOutput, error) {
	if err := k.faults.strike(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if awsapi.CallFrom(ctx).Principal.Type != awsapi.AWSService {
		return nil, awserr.New("AccessDeniedException", "only EKS itself revokes")
	}
	if _, ok := k.grants[*in.GrantId]; !ok {
		return nil, &kmstypes.NotFoundException{Message: aws.String("Grant ID is not found")}
	}
	delete(k.grants, *in.GrantId)
	return &awskms.RevokeGrantOutput{}, k.faults.strike()
}

func (k *fakeKeys) Try(ctx context.Context, _, roleARN, keyARN string) error {
	if err := k.faults.strike(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	allowed := false
	for _, g := range k.grants {
		allowed = allowed || *g.GranteePrincipal == roleARN && *g.KeyId == keyARN
	}
	if !allowed || k.roleDenied {
		return awserr.New("AccessDeniedException", "the role may not")
	}
	m, err := k.find(ctx, "kms:Encrypt", keyARN)
	switch {
	case err != nil:
		return err
	case m.KeyState == kmstypes.KeyStateDisabled:
		return &kmstypes.DisabledException{Message: aws.String(keyARN + " is disabled.")}
	case m.KeyState != kmstypes.KeyStateEnabled:
		return &kmstypes.KMSInvalidStateException{Message: aws.String(keyARN + " is pending deletion.")}
	}
	return nil
}

func (k *fakeKeys) granted() map[string]awskms.CreateGrantInput {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]awskms.CreateGrantInput{}
	for id, g := range k.grants {
		out[id] = g
	}
	return out
}

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
		"other resources":               {[]ekstypes.EncryptionConfig{{Resources: []string{"configmaps"}, Provider: key("good")[0].Provider}}, "", false, "InvalidParameterException", "The resources for encryptionConfig are invalid. The only supported value is secrets."},
		"no provider":                   {[]ekstypes.EncryptionConfig{{Resources: []string{"secrets"}}}, "", false, "InvalidParameterException", "KeyArn is required"},
		"no key":                        {encryptWith(""), "", false, "InvalidParameterException", "KeyArn is required"},
		"a key ID":                      {encryptWith("1234abcd-12ab-34cd-56ef-1234567890ab"), "", false, "InvalidParameterException", "The keyArn for encryptionConfig is invalid."},
		"another service's ARN":         {encryptWith("arn:aws:iam::111122223333:role/x"), "", false, "InvalidParameterException", "The keyArn for encryptionConfig is invalid."},
		"neither key nor alias":         {encryptWith("arn:aws:kms:us-east-1:111122223333:grant/x"), "", false, "InvalidParameterException", "The keyArn for encryptionConfig is invalid."},
		"another region":                {encryptWith("arn:aws:kms:eu-west-1:111122223333:key/good"), "", false, "InvalidParameterException", "The keyArn for encryptionConfig is scoped to invalid aws region."},
		"no such key":                   {key("nowhere"), "", false, "InvalidParameterException", "KMS key arn:aws:kms:us-east-1:111122223333:key/nowhere is not found"},
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
		EncryptionConfig: []ekstypes.EncryptionConfig{{Provider: &ekstypes.Provider{KeyArn: aws.String(goodKey)}}}, // no resources: secrets
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

	// Meanwhile nothing else may change.
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
	wantError(t, err, "NotImplemented", "Drydock does not implement secrets encryption (encryptionConfig) without KMS; docs/compatibility.md lists what it does.")
}

var _ eks.Keys = (*fakeKeys)(nil)

// ignoreSerde ignores what is no member of SDK types.
var ignoreSerde = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore())
