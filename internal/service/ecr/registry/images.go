package registry

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/service/ecr"
)

// maxManifest is the maximum size of a manifest according to the API model.
const maxManifest = 4 << 20

// manifest handles requests for one image, which is named by a tag or a digest.
func (x *exchange) manifest(reference string) error {
	id := ecrtypes.ImageIdentifier{ImageTag: &reference}
	if strings.Contains(reference, ":") {
		id = ecrtypes.ImageIdentifier{ImageDigest: &reference}
	}
	switch x.r.Method {
	case http.MethodPut:
		return x.putManifest(id)
	case http.MethodDelete:
		if x.alias != "" {
			return x.deletePublic(imagestore.ID{Digest: aws.ToString(id.ImageDigest), Tag: aws.ToString(id.ImageTag)})
		}
		out, err := awsapi.Do[awsecr.BatchDeleteImageOutput](x.ctx, x.cfg.API, &awsecr.BatchDeleteImageInput{RegistryId: &x.account, RepositoryName: &x.repository, ImageIds: []ecrtypes.ImageIdentifier{id}})
		if err != nil {
			return err
		}
		if len(out.Failures) > 0 {
			return failed(&out.Failures[0])
		}
		x.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if err := x.method(http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete); err != nil {
		return err
	}
	if x.alias != "" {
		return x.getPublic(imagestore.ID{Digest: aws.ToString(id.ImageDigest), Tag: aws.ToString(id.ImageTag)})
	}
	in := &awsecr.BatchGetImageInput{
		RegistryId: &x.account, RepositoryName: &x.repository, ImageIds: []ecrtypes.ImageIdentifier{id}, AcceptedMediaTypes: accepted(x.r.Header),
	}
	out, err := awsapi.Do[awsecr.BatchGetImageOutput](x.ctx, x.cfg.API, in)
	if x.r.Header.Get(ecr.UpstreamHeader) != "" {
		// Rules are not followed any further, as they may lead back to where they began.
	} else if absent(out, err) {
		imported, failed := x.cfg.ECR.PullThrough(x.ctx, x.cfg.API, x.account, x.region, x.repository, reference)
		if failed != nil {
			return failed
		}
		if imported {
			out, err = awsapi.Do[awsecr.BatchGetImageOutput](x.ctx, x.cfg.API, in)
		}
	} else if err == nil && id.ImageTag != nil && len(out.Images) > 0 && x.cfg.ECR.Refresh(x.ctx, x.account, x.region, x.repository, reference, *out.Images[0].ImageId.ImageDigest) {
		out, err = awsapi.Do[awsecr.BatchGetImageOutput](x.ctx, x.cfg.API, in)
	}
	if err != nil {
		return err
	}
	if len(out.Failures) > 0 {
		return failed(&out.Failures[0])
	}
	i := out.Images[0]
	x.send(*i.ImageManifestMediaType, *i.ImageId.ImageDigest, *i.ImageManifest)
	return nil
}

// absent reports whether BatchGetImage has not found the image or its repository.
func absent(out *awsecr.BatchGetImageOutput, err error) bool {
	if err != nil {
		return awserr.CodeOf(err) == "RepositoryNotFoundException"
	}
	return len(out.Failures) > 0 && out.Failures[0].FailureCode == ecrtypes.ImageFailureCodeImageNotFound
}

// send sends a manifest.
func (x *exchange) send(kind, digest, manifest string) {
	h := x.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Docker-Content-Digest", digest)
	h.Set("Content-Length", strconv.Itoa(len(manifest)))
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method != http.MethodHead {
		_, _ = io.WriteString(x.w, manifest) // it only fails if the client has gone
	}
}

func failed(f *ecrtypes.ImageFailure) error {
	if f.FailureCode == ecrtypes.ImageFailureCodeImageNotFound {
		return notFound("MANIFEST_UNKNOWN", *f.FailureReason)
	}
	return &problem{http.StatusBadRequest, "MANIFEST_INVALID", *f.FailureReason}
}

// accepted returns the media types that a client accepts.
func accepted(h http.Header) []string {
	var out []string
	for _, line := range h.Values("Accept") {
		for one := range strings.SplitSeq(line, ",") {
			if kind, _, _ := strings.Cut(strings.TrimSpace(one), ";"); kind != "" && !strings.Contains(kind, "*") {
				out = append(out, kind)
			}
		}
	}
	return out
}

func (x *exchange) putManifest(id ecrtypes.ImageIdentifier) error {
	raw, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxManifest))
	if err != nil {
		return &problem{http.StatusRequestEntityTooLarge, "SIZE_INVALID", "the manifest is larger than 4 MiB"}
	}
	manifest, kind := string(raw), x.r.Header.Get("Content-Type")
	in := &awsecr.PutImageInput{RegistryId: &x.account, RepositoryName: &x.repository, ImageManifest: &manifest, ImageDigest: id.ImageDigest, ImageTag: id.ImageTag}
	if kind != "" {
		in.ImageManifestMediaType = &kind
	}
	if x.alias != "" {
		err = x.putPublic(in)
	} else {
		_, err = awsapi.Do[awsecr.PutImageOutput](x.ctx, x.cfg.API, in)
	}
	if err != nil && awserr.CodeOf(err) != "ImageAlreadyExistsException" { // pushing an image again changes nothing
		return err
	}
	digest := imagestore.DigestOf(manifest)
	x.w.Header().Set("Docker-Content-Digest", digest)
	x.w.Header().Set("Location", x.base+x.repository+"/manifests/"+digest)
	if r, ok := x.contents(); ok {
		if i, _, err := x.cfg.Images.Find(r, imagestore.ID{Digest: digest}); err == nil && i.Subject != "" {
			x.w.Header().Set("OCI-Subject", i.Subject)
		}
	}
	x.w.WriteHeader(http.StatusCreated)
	return nil
}

// tags lists the tags of the repository.
func (x *exchange) tags() error {
	if err := x.method(http.MethodGet); err != nil {
		return err
	}
	q := x.r.URL.Query()
	if x.alias != "" {
		return x.tagsPublic(q)
	}
	in := &awsecr.ListImagesInput{RegistryId: &x.account, RepositoryName: &x.repository, Filter: &ecrtypes.ListImagesFilter{TagStatus: ecrtypes.TagStatusTagged}}
	if n, err := strconv.ParseInt(q.Get("n"), 10, 32); err == nil && n > 0 {
		in.MaxResults = new(int32(min(n, 1000)))
	}
	if next := q.Get("next_page"); next != "" {
		in.NextToken = &next
	}
	names := []string{}
	for {
		out, err := awsapi.Do[awsecr.ListImagesOutput](x.ctx, x.cfg.API, in)
		if err != nil {
			return err
		}
		for _, id := range out.ImageIds {
			names = append(names, *id.ImageTag)
		}
		in.NextToken = out.NextToken
		if in.NextToken == nil {
			break
		}
		if in.MaxResults != nil {
			x.w.Header().Set("Link", "<"+x.r.URL.Path+"?n="+url.QueryEscape(q.Get("n"))+"&next_page="+url.QueryEscape(*in.NextToken)+`>; rel="next"`)
			break
		}
	}
	return x.json("application/json", map[string]any{"name": x.repository, "tags": names})
}

// referrers lists the artifacts that describe an image.
func (x *exchange) referrers(digest string) error {
	if err := x.method(http.MethodGet); err != nil {
		return err
	}
	if x.alias != "" {
		return x.referrersPublic(digest)
	}
	in := &awsecr.ListImageReferrersInput{RegistryId: &x.account, RepositoryName: &x.repository, SubjectId: &ecrtypes.SubjectIdentifier{ImageDigest: &digest}}
	if kind := x.r.URL.Query().Get("artifactType"); kind != "" {
		in.Filter = &ecrtypes.ListImageReferrersFilter{ArtifactTypes: []string{kind}}
		x.w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	list := []descriptor{}
	for {
		out, err := awsapi.Do[awsecr.ListImageReferrersOutput](x.ctx, x.cfg.API, in)
		if err != nil {
			return err
		}
		for _, r := range out.Referrers {
			list = append(list, descriptor{*r.MediaType, *r.Digest, *r.Size, *r.ArtifactType})
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	return x.index(list)
}

type descriptor struct {
	MediaType    string `json:"mediaType"`
	Digest       string `json:"digest"`
	Size         int64  `json:"size"`
	ArtifactType string `json:"artifactType,omitempty"`
}

// index sends a list of artifacts.
func (x *exchange) index(list []descriptor) error {
	const index = "application/vnd.oci.image.index.v1+json"
	return x.json(index, map[string]any{"schemaVersion": 2, "mediaType": index, "manifests": list})
}

func (x *exchange) json(kind string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	x.w.Header().Set("Content-Type", kind)
	_, _ = x.w.Write(raw) // it only fails if the client has gone
	return nil
}
