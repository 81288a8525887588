package ecr_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestRepositories(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx, c := t.Context(), a.c
	create := &awsecr.CreateRepositoryInput{RepositoryName: aws.String("team/app"), Tags: []ecrtypes.Tag{{Key: aws.String("env"), Value: aws.String("test")}}}
	r := testkit.Must(c.CreateRepository(ctx, create))(t).Repository
	arn := "arn:aws:ecr:us-east-1:" + a.id + ":repository/team/app"
	want := &ecrtypes.Repository{
		CreatedAt: r.CreatedAt, RegistryId: &a.id, RepositoryArn: &arn, RepositoryName: aws.String("team/app"), RepositoryUri: aws.String(a.id + ".dkr.ecr.us-east-1.amazonaws.com/team/app"),
		ImageTagMutability: "MUTABLE", ImageScanningConfiguration: &ecrtypes.ImageScanningConfiguration{},
		EncryptionConfiguration: &ecrtypes.EncryptionConfiguration{EncryptionType: "AES256"},
	}
	if diff := cmp.Diff(want, r, cmpopts.IgnoreUnexported(ecrtypes.Repository{}, ecrtypes.ImageScanningConfiguration{}, ecrtypes.EncryptionConfiguration{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	_, err := c.CreateRepository(ctx, create)
	testkit.WantError(t, err, "RepositoryAlreadyExistsException", "The repository with name 'team/app' already exists in the registry with id '"+a.id+"'")
	_, err = c.CreateRepository(ctx, &awsecr.CreateRepositoryInput{RepositoryName: aws.String("Team")})
	testkit.WantErrorWith(t, err, "InvalidParameterException", "Invalid parameter at 'repositoryName' failed to satisfy constraint: 'must satisfy regular expression '[a-z0-9]")
	_, err = c.DescribeRepositories(ctx, &awsecr.DescribeRepositoriesInput{RepositoryNames: []string{"none"}})
	testkit.WantError(t, err, "RepositoryNotFoundException", "The repository with name 'none' does not exist in the registry with id '"+a.id+"'")

	for _, n := range []string{"aa", "bb", "cc"} {
		a.repository(n)
	}
	var names []string
	for p := awsecr.NewDescribeRepositoriesPaginator(c, &awsecr.DescribeRepositoriesInput{MaxResults: aws.Int32(2)}); p.HasMorePages(); {
		for _, r := range testkit.Must(p.NextPage(ctx))(t).Repositories {
			names = append(names, *r.RepositoryName)
		}
	}
	if got := strings.Join(names, " "); got != "aa bb cc team/app" {
		t.Errorf("repositories %s", got)
	}

	testkit.Must(c.TagResource(ctx, &awsecr.TagResourceInput{ResourceArn: &arn, Tags: []ecrtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}))(t)
	testkit.Must(c.UntagResource(ctx, &awsecr.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"env"}}))(t)
	if tags := testkit.Must(c.ListTagsForResource(ctx, &awsecr.ListTagsForResourceInput{ResourceArn: &arn}))(t).Tags; len(tags) != 1 || *tags[0].Key != "a" {
		t.Errorf("tags %+v", tags)
	}

	a.push("team/app", "1", "config", "layer")
	remove := &awsecr.DeleteRepositoryInput{RepositoryName: aws.String("team/app")}
	_, err = c.DeleteRepository(ctx, remove)
	testkit.WantError(t, err, "RepositoryNotEmptyException", "The repository with name 'team/app' in registry with id '"+a.id+"' cannot be deleted because it still contains images")
	remove.Force = true
	testkit.Must(c.DeleteRepository(ctx, remove))(t)
	if n := w.blobs.Used(a.id); n != 0 {
		t.Errorf("the deleted repository's images still have %d bytes", n)
	}
	a.repository("team/app")
	if got := a.images("team/app", nil); got != "" {
		t.Errorf("a new repository has the images of an old one: %s", got)
	}
}

// A customer's KMS key is checked with the permissions of the caller.
func TestEncryptionConfiguration(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx := t.Context()
	key := testkit.Must(awskms.NewFromConfig(w.AWSConfig(a.id)).CreateKey(ctx, &awskms.CreateKeyInput{}))(t).KeyMetadata
	in := &awsecr.CreateRepositoryInput{RepositoryName: aws.String("sealed"), EncryptionConfiguration: &ecrtypes.EncryptionConfiguration{EncryptionType: "KMS", KmsKey: key.KeyId}}
	_, err := a.user("writer", `{"Statement":{"Effect":"Allow","Action":["ecr:*","kms:DescribeKey"],"Resource":"*"}}`).CreateRepository(ctx, in)
	testkit.WantErrorWith(t, err, "KmsException", "is not authorized to perform: kms:CreateGrant")
	r := testkit.Must(a.c.CreateRepository(ctx, in))(t).Repository
	if got := aws.ToString(r.EncryptionConfiguration.KmsKey); got != *key.Arn {
		t.Errorf("key %s, want %s", got, *key.Arn)
	}
	in.RepositoryName, in.EncryptionConfiguration.KmsKey = aws.String("other"), aws.String("alias/none")
	_, err = a.c.CreateRepository(ctx, in)
	testkit.WantErrorWith(t, err, "KmsException", "alias/none is not found")
}

func TestImages(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx, c, app := t.Context(), a.c, aws.String("app")
	a.repository("app")
	one := a.push("app", "v1", "config 1", "base", "one")
	two := a.push("app", "v2", "config 2", "base", "two")
	names := map[string]string{digestOf(one): "one", digestOf(two): "two"}
	testkit.Must(a.put("app", "latest", two))(t)
	if got := a.images("app", names); got != "one:v1 two:latest,v2" {
		t.Errorf("images %s", got)
	}
	details := testkit.Must(c.DescribeImages(ctx, &awsecr.DescribeImagesInput{RepositoryName: app, ImageIds: []ecrtypes.ImageIdentifier{{ImageTag: aws.String("v1")}}}))(t).ImageDetails
	want := ecrtypes.ImageDetail{
		ImageDigest: aws.String(digestOf(one)), ImageManifestMediaType: aws.String(manifestType), ArtifactMediaType: aws.String(configType), ImagePushedAt: details[0].ImagePushedAt,
		ImageSizeInBytes: aws.Int64(int64(len("config 1baseone"))), ImageTags: []string{"v1"}, ImageStatus: "ACTIVE", RegistryId: &a.id, RepositoryName: app,
	}
	if diff := cmp.Diff([]ecrtypes.ImageDetail{want}, details, cmpopts.IgnoreUnexported(ecrtypes.ImageDetail{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	_, err := c.DescribeImages(ctx, &awsecr.DescribeImagesInput{RepositoryName: app, ImageIds: []ecrtypes.ImageIdentifier{{ImageTag: aws.String("v3")}}})
	testkit.WantError(t, err, "ImageNotFoundException", "The image with imageId {imageDigest:null, imageTag:'v3'} does not exist within the repository with name 'app' in the registry with id '"+a.id+"'")

	// Manifests and tags that are refused.
	for _, tt := range []struct{ tag, manifest, code, text string }{
		{"v1", one, "ImageAlreadyExistsException", "Image with digest '" + digestOf(one) + "' and tag 'v1' already exists in the repository with name 'app' in registry with id '" + a.id + "'"},
		{"", one, "ImageAlreadyExistsException", ""},
		{"x", manifestOf("config 1", "absent"), "LayersNotFoundException", "Layers with digests '[" + digestOf("absent") + "]' required for pushing image into repository with name 'app' in the registry with id '" + a.id + "' do not exist"},
		{"x", indexOf(manifestOf("absent")), "ReferencedImagesNotFoundException", ""},
		{"x", "{", "InvalidParameterException", ""},
		{"x", `{"schemaVersion":1}`, "InvalidParameterException", ""},
	} {
		_, err := a.put("app", tt.tag, tt.manifest)
		testkit.WantError(t, err, tt.code, tt.text)
	}
	_, err = c.PutImage(ctx, &awsecr.PutImageInput{RepositoryName: app, ImageManifest: &one, ImageDigest: aws.String(digestOf(two))})
	testkit.WantError(t, err, "ImageDigestDoesNotMatchException", "")

	// An index of both images is as large as the two together, and prevents their deletion.
	index := indexOf(one, two)
	testkit.Must(a.put("app", "all", index))(t)
	names[digestOf(index)] = "index"
	get := testkit.Must(c.BatchGetImage(ctx, &awsecr.BatchGetImageInput{RepositoryName: app, ImageIds: []ecrtypes.ImageIdentifier{{ImageTag: aws.String("all")}, {ImageTag: aws.String("none")}, {}}}))(t)
	if len(get.Images) != 1 || *get.Images[0].ImageManifest != index || *get.Images[0].ImageManifestMediaType != indexType || *get.Images[0].ImageId.ImageDigest != digestOf(index) {
		t.Errorf("got %+v", get.Images)
	}
	if len(get.Failures) != 2 || get.Failures[0].FailureCode != "ImageNotFound" || *get.Failures[0].FailureReason != "Requested image not found" || get.Failures[1].FailureCode != "MissingDigestAndTag" {
		t.Errorf("failures %+v", get.Failures)
	}
	remove := func(ids ...ecrtypes.ImageIdentifier) *awsecr.BatchDeleteImageOutput {
		t.Helper()
		return testkit.Must(c.BatchDeleteImage(ctx, &awsecr.BatchDeleteImageInput{RepositoryName: app, ImageIds: ids}))(t)
	}
	if out := remove(ecrtypes.ImageIdentifier{ImageTag: aws.String("v1")}); len(out.Failures) != 1 || out.Failures[0].FailureCode != "ImageReferencedByManifestList" {
		t.Errorf("deleted %+v", out)
	}
	// Deleting one of several tags keeps the image, and deleting the last one deletes it. Layers stay while an image
	// uses them.
	remove(ecrtypes.ImageIdentifier{ImageTag: aws.String("latest")})
	if got := a.images("app", names); got != "index:all one:v1 two:v2" {
		t.Errorf("images %s", got)
	}
	if out := remove(ecrtypes.ImageIdentifier{ImageDigest: aws.String(digestOf(index))}, ecrtypes.ImageIdentifier{ImageTag: aws.String("v1")}); len(out.Failures) != 0 || len(out.ImageIds) != 2 {
		t.Errorf("deleted %+v", out)
	}
	available := testkit.Must(c.BatchCheckLayerAvailability(ctx, &awsecr.BatchCheckLayerAvailabilityInput{RepositoryName: app, LayerDigests: []string{digestOf("base"), digestOf("one"), "none"}}))(t)
	if l := available.Layers; l[0].LayerAvailability != "AVAILABLE" || *l[0].LayerSize != 4 || l[1].LayerAvailability != "UNAVAILABLE" || available.Failures[0].FailureCode != "InvalidLayerDigest" {
		t.Errorf("layers %+v", available)
	}
	remove(ecrtypes.ImageIdentifier{ImageDigest: aws.String(digestOf(two))})
	if n := w.blobs.Used(a.id); n != 0 {
		t.Errorf("deleted images still have %d bytes", n)
	}
	var done []string
	for _, e := range w.actions {
		done = append(done, e.Type+" "+names[e.Digest]+" "+e.Tag)
	}
	if got := strings.Join(done, ", "); got != "PUSH one v1, PUSH two v2, PUSH two latest, PUSH index all, DELETE two latest, DELETE index all, DELETE one v1, DELETE two v2" {
		t.Errorf("actions %s", got)
	}
}

func TestListImages(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx, app := t.Context(), aws.String("app")
	a.repository("app")
	tagged, untagged := a.push("app", "a", "1"), a.push("app", "", "2")
	testkit.Must(a.put("app", "b", tagged))(t)
	list := func(in awsecr.ListImagesInput) (out []string) {
		t.Helper()
		in.RepositoryName = app
		for p := awsecr.NewListImagesPaginator(a.c, &in); p.HasMorePages(); {
			for _, id := range testkit.Must(p.NextPage(ctx))(t).ImageIds {
				name := map[string]string{digestOf(tagged): "tagged:", digestOf(untagged): "untagged"}[*id.ImageDigest]
				out = append(out, name+aws.ToString(id.ImageTag))
			}
		}
		return out
	}
	same := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	for _, tt := range []struct {
		in   awsecr.ListImagesInput
		want []string
	}{
		{awsecr.ListImagesInput{MaxResults: aws.Int32(1)}, []string{"tagged:a", "tagged:b", "untagged"}},
		{awsecr.ListImagesInput{Filter: &ecrtypes.ListImagesFilter{TagStatus: "TAGGED"}}, []string{"tagged:a", "tagged:b"}},
		{awsecr.ListImagesInput{Filter: &ecrtypes.ListImagesFilter{TagStatus: "UNTAGGED"}}, []string{"untagged"}},
	} {
		if diff := cmp.Diff(tt.want, list(tt.in), same); diff != "" {
			t.Errorf("%+v: -want +got:\n%s", tt.in, diff)
		}
	}
}

func TestUploads(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx, c, app := t.Context(), a.c, aws.String("app")
	a.repository("app")
	begin := func() *string {
		t.Helper()
		return testkit.Must(c.InitiateLayerUpload(ctx, &awsecr.InitiateLayerUploadInput{RepositoryName: app}))(t).UploadId
	}
	part := func(id *string, first, last int64, content string) error {
		_, err := c.UploadLayerPart(ctx, &awsecr.UploadLayerPartInput{RepositoryName: app, UploadId: id, PartFirstByte: &first, PartLastByte: &last, LayerPartBlob: []byte(content)})
		return err
	}
	complete := func(id *string, digest string) error {
		_, err := c.CompleteLayerUpload(ctx, &awsecr.CompleteLayerUploadInput{RepositoryName: app, UploadId: id, LayerDigests: []string{digest}})
		return err
	}
	id := begin()
	testkit.WantError(t, complete(id, digestOf("")), "EmptyUploadException",
		"The upload with id '"+*id+"' in the repository with name 'app' in registry with id '"+a.id+"' cannot be completed because it does not have any parts")
	testkit.WantError(t, part(id, 1, 3, "abc"), "InvalidLayerPartException", "")
	testkit.WantError(t, part(id, 0, 3, "abc"), "InvalidLayerPartException", "")

	// Two parts make one layer, and a read can span both.
	const mib = 1 << 20
	big, small := strings.Repeat("a", 5*mib), "rest"
	for i, p := range []string{big, small} {
		first := int64(i * 5 * mib)
		if err := part(id, first, first+int64(len(p))-1, p); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WantError(t, complete(id, digestOf("other")), "InvalidLayerException", "None of the provided layer digests match the calculated layer digest: "+digestOf(big+small))
	if err := complete(id, digestOf(big+small)); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, complete(id, digestOf(big+small)), "UploadNotFoundException", "")

	id = begin()
	for i, p := range []string{"small", "rest"} {
		first := int64(i * 5)
		if err := part(id, first, first+int64(len(p))-1, p); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WantError(t, complete(id, digestOf("smallrest")), "LayerPartTooSmallException", "")

	id = begin()
	if err := part(id, 0, 2, "abc"); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(25 * time.Hour)
	testkit.WantError(t, part(id, 3, 5, "def"), "UploadNotFoundException", "")

	a.layer("app", "same")
	id = begin()
	if err := part(id, 0, 3, "same"); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, complete(id, digestOf("same")), "LayerAlreadyExistsException", "")
	_, err := c.GetDownloadUrlForLayer(ctx, &awsecr.GetDownloadUrlForLayerInput{RepositoryName: app, LayerDigest: aws.String(digestOf("none"))})
	testkit.WantError(t, err, "LayersNotFoundException", "The layer with digest '"+digestOf("none")+"' does not exist within the repository with name 'app' in the registry with id '"+a.id+"'")
}

func TestImmutableTags(t *testing.T) {
	for _, tt := range []struct {
		mutability ecrtypes.ImageTagMutability
		filter     string
		refused    string // tags that cannot be moved
	}{
		{"MUTABLE", "", ""},
		{"IMMUTABLE", "", "latest v1"},
		{"IMMUTABLE_WITH_EXCLUSION", "late*", "v1"},
		{"MUTABLE_WITH_EXCLUSION", "v*", "v1"},
	} {
		t.Run(string(tt.mutability), func(t *testing.T) {
			a := newWorld(t).account(t)
			in := &awsecr.PutImageTagMutabilityInput{RepositoryName: aws.String("app"), ImageTagMutability: tt.mutability}
			if tt.filter != "" {
				in.ImageTagMutabilityExclusionFilters = []ecrtypes.ImageTagMutabilityExclusionFilter{{Filter: &tt.filter, FilterType: "WILDCARD"}}
			}
			a.repository("app")
			testkit.Must(a.c.PutImageTagMutability(t.Context(), in))(t)
			a.push("app", "latest", "old")
			a.push("app", "v1", "older")
			next := a.push("app", "", "new")
			var refused []string
			for _, tag := range []string{"latest", "v1"} {
				if _, err := a.put("app", tag, next); err != nil {
					testkit.WantError(t, err, "ImageTagAlreadyExistsException", "The image tag '"+tag+"' already exists in the 'app' repository and cannot be overwritten because the repository is immutable.")
					refused = append(refused, tag)
				}
			}
			if got := strings.Join(refused, " "); got != tt.refused {
				t.Errorf("refused %q, want %q", got, tt.refused)
			}
		})
	}
	a := newWorld(t).account(t)
	_, err := a.c.CreateRepository(t.Context(), &awsecr.CreateRepositoryInput{RepositoryName: aws.String("app"), ImageTagMutability: "IMMUTABLE_WITH_EXCLUSION"})
	testkit.WantError(t, err, "InvalidParameterException", "")
}

func TestLifecyclePolicies(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx, c, app := t.Context(), a.c, aws.String("app")
	a.repository("app")
	names := map[string]string{}
	for _, tag := range []string{"v1", "v2", "v3", "keep", ""} {
		names[digestOf(a.push("app", tag, "of "+tag))] = "i" + tag
		w.clock.Step(time.Minute)
	}
	_, err := c.GetLifecyclePolicy(ctx, &awsecr.GetLifecyclePolicyInput{RepositoryName: app})
	testkit.WantError(t, err, "LifecyclePolicyNotFoundException", "Lifecycle policy does not exist for the repository with name 'app' in the registry with id '"+a.id+"'")
	_, err = c.PutLifecyclePolicy(ctx, &awsecr.PutLifecyclePolicyInput{RepositoryName: app, LifecyclePolicyText: aws.String(`{"rules":[]}` + strings.Repeat(" ", 100))})
	testkit.WantError(t, err, "InvalidParameterException", `Invalid parameter at 'LifecyclePolicyText' failed to satisfy constraint: 'Lifecycle policy validation failure: object has missing required properties (["rules"])'`)
	_, err = c.PutLifecyclePolicy(ctx, &awsecr.PutLifecyclePolicyInput{RepositoryName: app, LifecyclePolicyText: aws.String("{}")})
	testkit.WantError(t, err, "InvalidParameterException", "Invalid parameter at 'lifecyclePolicyText' failed to satisfy constraint: 'Member must have length greater than or equal to 100'")

	text := `{"rules":[
		{"rulePriority":1,"selection":{"tagStatus":"tagged","tagPrefixList":["v"],"countType":"imageCountMoreThan","countNumber":1},"action":{"type":"expire"}},
		{"rulePriority":2,"selection":{"tagStatus":"any","countType":"sinceImagePushed","countUnit":"days","countNumber":14},"action":{"type":"expire"}}]}`
	preview := testkit.Must(c.StartLifecyclePolicyPreview(ctx, &awsecr.StartLifecyclePolicyPreviewInput{RepositoryName: app, LifecyclePolicyText: &text}))(t)
	if preview.Status != "IN_PROGRESS" {
		t.Errorf("preview %+v", preview)
	}
	result := testkit.Must(c.GetLifecyclePolicyPreview(ctx, &awsecr.GetLifecyclePolicyPreviewInput{RepositoryName: app}))(t)
	var expiring []string
	for _, r := range result.PreviewResults {
		expiring = append(expiring, names[*r.ImageDigest])
	}
	if got := strings.Join(expiring, " "); got != "iv1 iv2" || result.Status != "COMPLETE" || *result.Summary.ExpiringImageTotalCount != 2 {
		t.Errorf("preview %s: %+v", got, result)
	}
	if got := a.images("app", names); got != "i: ikeep:keep iv1:v1 iv2:v2 iv3:v3" {
		t.Errorf("the preview deleted images: %s", got)
	}
	testkit.Must(c.PutLifecyclePolicy(ctx, &awsecr.PutLifecyclePolicyInput{RepositoryName: app, LifecyclePolicyText: &text}))(t)
	testkit.Run(t, w.ecr.Run)
	until := func(want string) {
		t.Helper()
		testkit.Eventually(t, 10*time.Second, func() error {
			w.clock.Step(time.Minute)
			if got := a.images("app", names); got != want {
				return fmt.Errorf("images %s, want %s", got, want)
			}
			return nil
		})
	}
	until("i: ikeep:keep iv3:v3")
	testkit.Eventually(t, 10*time.Second, func() error { // the time is recorded after the images are deleted
		if at := testkit.Must(c.GetLifecyclePolicy(ctx, &awsecr.GetLifecyclePolicyInput{RepositoryName: app}))(t).LastEvaluatedAt; at.Year() < 2000 {
			return fmt.Errorf("evaluated at %v", at)
		}
		return nil
	})
	w.clock.Step(15 * 24 * time.Hour)
	until("iv3:v3") // the first rule has selected this image
}

func TestScanning(t *testing.T) {
	a := newWorld(t).account(t)
	ctx, c, app := t.Context(), a.c, aws.String("app")
	a.repository("app")
	m := a.push("app", "1", "x")
	id := &ecrtypes.ImageIdentifier{ImageTag: aws.String("1")}
	_, err := c.DescribeImageScanFindings(ctx, &awsecr.DescribeImageScanFindingsInput{RepositoryName: app, ImageId: id})
	testkit.WantErrorWith(t, err, "ScanNotFoundException", "Image scan does not exist for the image with '{imageDigest:'null', imageTag:'1'}'")
	testkit.Must(c.StartImageScan(ctx, &awsecr.StartImageScanInput{RepositoryName: app, ImageId: id}))(t)
	found := testkit.Must(c.DescribeImageScanFindings(ctx, &awsecr.DescribeImageScanFindingsInput{RepositoryName: app, ImageId: id}))(t)
	if found.ImageScanStatus.Status != "UNSUPPORTED_IMAGE" || *found.ImageId.ImageDigest != digestOf(m) {
		t.Errorf("found %+v", found)
	}
	testkit.Must(c.PutImageScanningConfiguration(ctx, &awsecr.PutImageScanningConfigurationInput{RepositoryName: app, ImageScanningConfiguration: &ecrtypes.ImageScanningConfiguration{ScanOnPush: true}}))(t)
	a.push("app", "2", "y")
	testkit.Must(c.DescribeImageScanFindings(ctx, &awsecr.DescribeImageScanFindingsInput{RepositoryName: app, ImageId: &ecrtypes.ImageIdentifier{ImageTag: aws.String("2")}}))(t)
	conf := testkit.Must(c.BatchGetRepositoryScanningConfiguration(ctx, &awsecr.BatchGetRepositoryScanningConfigurationInput{RepositoryNames: []string{"app", "none"}}))(t)
	if len(conf.ScanningConfigurations) != 1 || conf.ScanningConfigurations[0].ScanFrequency != "SCAN_ON_PUSH" || len(conf.Failures) != 1 {
		t.Errorf("configuration %+v", conf)
	}
}

func TestRegistrySettings(t *testing.T) {
	a := newWorld(t).account(t)
	ctx, c := t.Context(), a.c
	if r := testkit.Must(c.DescribeRegistry(ctx, &awsecr.DescribeRegistryInput{}))(t); *r.RegistryId != a.id || r.ReplicationConfiguration.Rules == nil {
		t.Errorf("registry %+v", r)
	}
	_, err := c.GetRegistryPolicy(ctx, &awsecr.GetRegistryPolicyInput{})
	testkit.WantError(t, err, "RegistryPolicyNotFoundException", "Registry policy does not exist in the registry with id '"+a.id+"'")
	_, err = c.PutRegistryPolicy(ctx, &awsecr.PutRegistryPolicyInput{PolicyText: aws.String("{}")})
	testkit.WantError(t, err, "InvalidParameterException", "")
	if v := testkit.Must(c.GetAccountSetting(ctx, &awsecr.GetAccountSettingInput{Name: aws.String("REGISTRY_POLICY_SCOPE")}))(t).Value; *v != "V2" {
		t.Errorf("scope %s", *v)
	}
	rules := []ecrtypes.RegistryScanningRule{{ScanFrequency: "SCAN_ON_PUSH", RepositoryFilters: []ecrtypes.ScanningRepositoryFilter{{Filter: aws.String("*"), FilterType: "WILDCARD"}}}}
	testkit.Must(c.PutRegistryScanningConfiguration(ctx, &awsecr.PutRegistryScanningConfigurationInput{Rules: rules}))(t)
	if got := testkit.Must(c.GetRegistryScanningConfiguration(ctx, &awsecr.GetRegistryScanningConfigurationInput{}))(t).ScanningConfiguration; got.ScanType != "BASIC" || len(got.Rules) != 1 {
		t.Errorf("scanning %+v", got)
	}
	_, err = c.PutReplicationConfiguration(ctx, &awsecr.PutReplicationConfigurationInput{ReplicationConfiguration: &ecrtypes.ReplicationConfiguration{Rules: []ecrtypes.ReplicationRule{}}})
	testkit.WantError(t, err, "NotImplemented", "")

	rule := &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: aws.String("ecr-public"), UpstreamRegistryUrl: aws.String("public.ecr.aws")}
	testkit.Must(c.CreatePullThroughCacheRule(ctx, rule))(t)
	_, err = c.CreatePullThroughCacheRule(ctx, rule)
	testkit.WantError(t, err, "PullThroughCacheRuleAlreadyExistsException", "")
	list := testkit.Must(c.DescribePullThroughCacheRules(ctx, &awsecr.DescribePullThroughCacheRulesInput{}))(t).PullThroughCacheRules
	if len(list) != 1 || list[0].UpstreamRegistry != "ecr-public" {
		t.Errorf("rules %+v", list)
	}
	testkit.Must(c.DeletePullThroughCacheRule(ctx, &awsecr.DeletePullThroughCacheRuleInput{EcrRepositoryPrefix: rule.EcrRepositoryPrefix}))(t)
	_, err = c.DescribePullThroughCacheRules(ctx, &awsecr.DescribePullThroughCacheRulesInput{EcrRepositoryPrefixes: []string{"ecr-public"}})
	testkit.WantError(t, err, "PullThroughCacheRuleNotFoundException", "")
}

// A registry policy of scope V2 decides who may create repositories, one of V1 only whether ECR may do so for the caller.
func TestRegistryPolicyOfCreation(t *testing.T) {
	a := newWorld(t).account(t)
	ctx := t.Context()
	allowed, denied := a.user("allowed", ""), a.user("denied", `{"Statement":{"Effect":"Allow","Action":"ecr:*","Resource":"*"}}`)
	statement := func(effect, user string) string {
		return `{"Sid":"` + user + `","Effect":"` + effect + `","Principal":{"AWS":"arn:aws:iam::` + a.id + `:user/` + user + `"},"Action":"ecr:CreateRepository","Resource":"arn:aws:ecr:us-east-1:` + a.id + `:repository/*"}`
	}
	testkit.Must(a.c.PutRegistryPolicy(ctx, &awsecr.PutRegistryPolicyInput{PolicyText: aws.String(`{"Version":"2012-10-17","Statement":[` + statement("Allow", "allowed") + "," + statement("Deny", "denied") + "]}")}))(t)
	create := func(c *awsecr.Client, name string) error {
		_, err := c.CreateRepository(ctx, &awsecr.CreateRepositoryInput{RepositoryName: &name})
		return err
	}
	wantText(t, create(denied, "app"), "with an explicit deny in a resource-based policy")
	if err := create(allowed, "app"); err != nil {
		t.Error(err)
	}
	testkit.Must(a.c.PutAccountSetting(ctx, &awsecr.PutAccountSettingInput{Name: aws.String("REGISTRY_POLICY_SCOPE"), Value: aws.String("V1")}))(t)
	wantText(t, create(allowed, "web"), "because no identity-based policy allows")
	if err := create(denied, "web"); err != nil {
		t.Error(err)
	}
}

// Policies of repositories and registries are evaluated together with the caller's own.
func TestPoliciesDecide(t *testing.T) {
	w := newWorld(t)
	owner, other := w.account(t), w.account(t)
	ctx, app := t.Context(), aws.String("app")
	owner.repository("app")
	owner.push("app", "1", "x")
	reader := owner.user("reader", `{"Statement":{"Effect":"Allow","Action":"ecr:*","Resource":"arn:aws:ecr:us-east-1:`+owner.id+`:repository/app"}}`)
	nobody := owner.user("nobody", "")
	guest := other.user("guest", `{"Statement":{"Effect":"Allow","Action":"ecr:*","Resource":"*"}}`)
	get := func(c *awsecr.Client) error {
		_, err := c.BatchGetImage(ctx, &awsecr.BatchGetImageInput{RepositoryName: app, RegistryId: &owner.id, ImageIds: []ecrtypes.ImageIdentifier{{ImageTag: aws.String("1")}}})
		return err
	}
	arn := "arn:aws:ecr:us-east-1:" + owner.id + ":repository/app"
	if err := get(reader); err != nil {
		t.Error(err)
	}
	testkit.WantError(t, get(nobody), "AccessDeniedException",
		"User: arn:aws:iam::"+owner.id+":user/nobody is not authorized to perform: ecr:BatchGetImage on resource: "+arn+" because no identity-based policy allows the ecr:BatchGetImage action")
	testkit.WantError(t, get(guest), "AccessDeniedException",
		"User: arn:aws:iam::"+other.id+":user/guest is not authorized to perform: ecr:BatchGetImage on resource: "+arn+" because no resource-based policy allows the ecr:BatchGetImage action")
	_, err := reader.CreateRepository(ctx, &awsecr.CreateRepositoryInput{RepositoryName: aws.String("other")})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "ecr:CreateRepository on resource: arn:aws:ecr:us-east-1:"+owner.id+":repository/other")

	set := &awsecr.SetRepositoryPolicyInput{RepositoryName: app, PolicyText: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + other.id + `:root"},"Action":"ecr:BatchGetImage"}}`)}
	testkit.Must(owner.c.SetRepositoryPolicy(ctx, set))(t)
	if err := get(guest); err != nil {
		t.Error(err)
	}
	if got := testkit.Must(owner.c.GetRepositoryPolicy(ctx, &awsecr.GetRepositoryPolicyInput{RepositoryName: app}))(t).PolicyText; *got != *set.PolicyText {
		t.Errorf("policy %s", *got)
	}
	// A denial applies to everyone. If it would apply to its author, it must be forced.
	deny := &awsecr.SetRepositoryPolicyInput{RepositoryName: app, PolicyText: aws.String(`{"Statement":{"Effect":"Deny","Principal":"*","Action":"ecr:*"}}`)}
	_, err = reader.SetRepositoryPolicy(ctx, deny)
	testkit.WantError(t, err, "InvalidParameterException", "")
	deny.PolicyText = aws.String(`{"Statement":{"Effect":"Deny","Principal":"*","Action":"ecr:BatchGetImage"}}`)
	testkit.Must(reader.SetRepositoryPolicy(ctx, deny))(t)
	testkit.WantErrorWith(t, get(reader), "AccessDeniedException", "with an explicit deny in a resource-based policy")
	testkit.Must(owner.c.DeleteRepositoryPolicy(ctx, &awsecr.DeleteRepositoryPolicyInput{RepositoryName: app}))(t)
	_, err = owner.c.GetRepositoryPolicy(ctx, &awsecr.GetRepositoryPolicyInput{RepositoryName: app})
	testkit.WantError(t, err, "RepositoryPolicyNotFoundException", "Repository policy does not exist for the repository with name 'app' in the registry with id '"+owner.id+"'")

	testkit.Must(owner.c.PutRegistryPolicy(ctx, &awsecr.PutRegistryPolicyInput{PolicyText: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"` + other.id + `"},"Action":"ecr:BatchGetImage","Resource":"arn:aws:ecr:us-east-1:` + owner.id + `:repository/*"}}`)}))(t)
	if err := get(guest); err != nil {
		t.Error(err)
	}
	testkit.Must(owner.c.PutAccountSetting(ctx, &awsecr.PutAccountSettingInput{Name: aws.String("REGISTRY_POLICY_SCOPE"), Value: aws.String("V1")}))(t)
	testkit.WantErrorWith(t, get(guest), "AccessDeniedException", "because no resource-based policy allows")
}

func TestAuthorizationTokens(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	data := testkit.Must(a.c.GetAuthorizationToken(t.Context(), &awsecr.GetAuthorizationTokenInput{}))(t).AuthorizationData[0]
	if want := "https://" + a.id + ".dkr.ecr.us-east-1.amazonaws.com"; *data.ProxyEndpoint != want {
		t.Errorf("endpoint %s", *data.ProxyEndpoint)
	}
	if left := data.ExpiresAt.Sub(w.clock.Now()); left < 12*time.Hour-time.Second || left > 12*time.Hour {
		t.Errorf("expires in %v", left)
	}
	raw, err := base64.StdEncoding.DecodeString(*data.AuthorizationToken)
	if err != nil {
		t.Fatal(err)
	}
	user, password, _ := strings.Cut(string(raw), ":")
	p, err := w.ecr.Login(password)
	if err != nil || user != "AWS" || p.ARN != "arn:aws:iam::"+a.id+":root" {
		t.Errorf("%s is %+v, %v", user, p, err)
	}
	if _, err := w.ecr.Login(password[:len(password)-2] + "xx"); err == nil {
		t.Error("a token that was changed is valid")
	}
	w.clock.Step(12 * time.Hour)
	if _, err := w.ecr.Login(password); err == nil {
		t.Error("an expired token is valid")
	}
}

// TestManyImages deletes more than a transaction of the store may write: an image with many tags, and a repository with
// many images.
func TestManyImages(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx, app := t.Context(), aws.String("app")
	const many = store.MaxWrites + 20
	a.repository("app")
	one := a.push("app", "t0", "config", "layer")
	for i := 1; i < many; i++ {
		testkit.Must(a.put("app", fmt.Sprint("t", i), one))(t)
	}
	out := testkit.Must(a.c.BatchDeleteImage(ctx, &awsecr.BatchDeleteImageInput{RepositoryName: app, ImageIds: []ecrtypes.ImageIdentifier{{ImageDigest: aws.String(digestOf(one))}}}))(t)
	if len(out.ImageIds) != many || len(out.Failures) != 0 {
		t.Errorf("%d deleted, %v", len(out.ImageIds), out.Failures)
	}
	if used := w.blobs.Used(a.id); used != 0 {
		t.Errorf("%d bytes are left", used)
	}

	for i := range many {
		a.push("app", fmt.Sprint("t", i), "config of all", fmt.Sprint("layer ", i))
	}
	testkit.Must(a.c.DeleteRepository(ctx, &awsecr.DeleteRepositoryInput{RepositoryName: app, Force: true}))(t)
	if used := w.blobs.Used(a.id); used != 0 {
		t.Errorf("%d bytes are left of the repository", used)
	}
}

// TestEndpointPolicy: calls through a VPC endpoint (ecr.api) need its policy, too.
func TestEndpointPolicy(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	testkit.Must(a.c.CreateRepository(t.Context(), &awsecr.CreateRepositoryInput{RepositoryName: aws.String("team/app")}))(t)
	w.endpoint.Store(`{"Statement":[{"Effect":"Allow","Principal":"*","Action":["ecr:Describe*"],"Resource":"*"}]}`)
	testkit.Must(a.c.DescribeRepositories(t.Context(), &awsecr.DescribeRepositoriesInput{}))(t)
	_, err := a.c.GetAuthorizationToken(t.Context(), &awsecr.GetAuthorizationTokenInput{})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "because no VPC endpoint policy allows the ecr:GetAuthorizationToken action")
}
