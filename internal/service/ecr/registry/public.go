package registry

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	publictypes "github.com/aws/aws-sdk-go-v2/service/ecrpublic/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/imagestore"
)

// Public looks up the repositories of ECR Public.
type Public interface {
	// Repository returns where the images of public.ecr.aws/ALIAS/NAME are stored, or nil, and the account that owns
	// them. known reports whether a registry with that alias exists.
	Repository(alias, name string) (r *imagestore.Repository, account string, known bool)
}

// publicHost is the host of all public registries, publicRegion the region of ECR Public's API.
const (
	publicHost   = "public.ecr.aws"
	publicRegion = "us-east-1"
)

// inPublic checks whether the request is for a public registry (/v2/ALIAS/… at public.ecr.aws, or
// /v2/public.ecr.aws/ALIAS/… elsewhere) and returns the rest of the path.
func (x *exchange) inPublic(path string) string {
	rest := path
	if hostname(x.r.Host) != publicHost {
		var ok bool
		if rest, ok = strings.CutPrefix(path, publicHost+"/"); !ok {
			return path
		}
		x.base += publicHost + "/"
	}
	alias, rest, ok := strings.Cut(rest, "/")
	if !ok || x.cfg.Public == nil {
		return path
	}
	x.alias, x.region, x.base = alias, publicRegion, x.base+alias+"/"
	x.account = alias // which ECR Public accepts instead of an account
	return rest
}

// anonymous reports whether the request needs no credentials: anyone may read a public registry.
// https://docs.aws.amazon.com/AmazonECR/latest/public/docker-pull-ecr-image.html
func (x *exchange) anonymous() bool {
	return x.alias != "" && x.r.Header.Get("Authorization") == "" && (x.r.Method == http.MethodGet || x.r.Method == http.MethodHead)
}

// found returns where the repository's images are stored.
func (x *exchange) found() (*imagestore.Repository, error) {
	r, account, known := x.cfg.Public.Repository(x.alias, x.repository)
	switch {
	case !known:
		return nil, notFound("NAME_UNKNOWN", "The registry with id '"+x.alias+"' does not exist")
	case r == nil:
		return nil, notFound("NAME_UNKNOWN", "The repository with name '"+x.repository+"' does not exist in the registry with id '"+account+"'")
	}
	return r, nil
}

func (x *exchange) getPublic(id imagestore.ID) error {
	r, err := x.found()
	if err != nil {
		return err
	}
	i, manifest, f, err := x.cfg.Images.Pull(x.r.Context(), r, id)
	switch {
	case err != nil:
		return err
	case f != nil && f.Code == imagestore.NotFound:
		return notFound("MANIFEST_UNKNOWN", f.Reason)
	case f != nil:
		return &problem{http.StatusBadRequest, "MANIFEST_INVALID", f.Reason}
	}
	x.send(i.MediaType, i.Digest, manifest)
	return nil
}

func (x *exchange) tagsPublic(q url.Values) error {
	r, err := x.found()
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(q.Get("n"))
	if err != nil || most <= 0 {
		most = 1000
	}
	names := x.cfg.Images.Tags(r, q.Get("last"))
	if len(names) > most {
		names = names[:most]
		x.w.Header().Set("Link", "<"+x.r.URL.Path+"?n="+strconv.Itoa(most)+"&last="+url.QueryEscape(names[most-1])+`>; rel="next"`)
	}
	return x.json("application/json", map[string]any{"name": x.alias + "/" + x.repository, "tags": names})
}

func (x *exchange) referrersPublic(digest string) error {
	r, err := x.found()
	if err != nil {
		return err
	}
	kind := x.r.URL.Query().Get("artifactType")
	list := []descriptor{}
	for _, i := range x.cfg.Images.ReferrersOf(r, digest) {
		if kind == "" || kind == i.ArtifactType {
			list = append(list, descriptor{i.MediaType, i.Digest, i.ManifestSize, i.ArtifactType})
		}
	}
	if kind != "" {
		x.w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	return x.index(list)
}

func (x *exchange) deletePublic(id imagestore.ID) error {
	named := publictypes.ImageIdentifier{}
	if id.Digest != "" {
		named.ImageDigest = &id.Digest
	} else {
		named.ImageTag = &id.Tag
	}
	out, err := awsapi.Do[awsecrpublic.BatchDeleteImageOutput](x.ctx, x.cfg.API, &awsecrpublic.BatchDeleteImageInput{RegistryId: &x.alias, RepositoryName: &x.repository, ImageIds: []publictypes.ImageIdentifier{named}})
	if err != nil {
		return err
	}
	if len(out.Failures) > 0 {
		if f := out.Failures[0]; f.FailureCode != publictypes.ImageFailureCodeImageNotFound {
			return &problem{http.StatusBadRequest, "MANIFEST_INVALID", *f.FailureReason}
		}
		return notFound("MANIFEST_UNKNOWN", *out.Failures[0].FailureReason)
	}
	x.w.WriteHeader(http.StatusAccepted)
	return nil
}

func (x *exchange) putPublic(in *awsecr.PutImageInput) error {
	_, err := awsapi.Do[awsecrpublic.PutImageOutput](x.ctx, x.cfg.API, &awsecrpublic.PutImageInput{
		RegistryId: &x.alias, RepositoryName: in.RepositoryName, ImageManifest: in.ImageManifest, ImageManifestMediaType: in.ImageManifestMediaType, ImageDigest: in.ImageDigest, ImageTag: in.ImageTag,
	})
	return err
}

func (x *exchange) initiatePublic() (id string, err error) {
	out, err := awsapi.Do[awsecrpublic.InitiateLayerUploadOutput](x.ctx, x.cfg.API, &awsecrpublic.InitiateLayerUploadInput{RegistryId: &x.alias, RepositoryName: &x.repository})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.UploadId), nil
}

func (x *exchange) uploadPublic(id string, first, last int64, part []byte) error {
	_, err := awsapi.Do[awsecrpublic.UploadLayerPartOutput](x.ctx, x.cfg.API, &awsecrpublic.UploadLayerPartInput{
		RegistryId: &x.alias, RepositoryName: &x.repository, UploadId: &id, PartFirstByte: &first, PartLastByte: &last, LayerPartBlob: part,
	})
	return err
}

func (x *exchange) completePublic(id, digest string) error {
	_, err := awsapi.Do[awsecrpublic.CompleteLayerUploadOutput](x.ctx, x.cfg.API, &awsecrpublic.CompleteLayerUploadInput{
		RegistryId: &x.alias, RepositoryName: &x.repository, UploadId: &id, LayerDigests: []string{digest},
	})
	return err
}
