package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/imagestore"
)

// blob handles requests for a layer or a configuration. Clients send HEAD before they upload one, and GET to pull one.
func (x *exchange) blob(digest string) error {
	if err := x.method(http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	if x.alias != "" {
		return x.serve(digest)
	}
	if x.r.Method == http.MethodHead {
		out, err := awsapi.Do[awsecr.BatchCheckLayerAvailabilityOutput](x.ctx, x.cfg.API, &awsecr.BatchCheckLayerAvailabilityInput{
			RegistryId: &x.account, RepositoryName: &x.repository, LayerDigests: []string{digest},
		})
		if err != nil {
			return err
		}
		if len(out.Layers) == 0 || out.Layers[0].LayerAvailability != ecrtypes.LayerAvailabilityAvailable {
			return notFound("BLOB_UNKNOWN", "blob unknown to registry")
		}
		return x.serve(digest)
	}
	out, err := awsapi.Do[awsecr.GetDownloadUrlForLayerOutput](x.ctx, x.cfg.API, &awsecr.GetDownloadUrlForLayerInput{RegistryId: &x.account, RepositoryName: &x.repository, LayerDigest: &digest})
	if err != nil {
		return err
	}
	if !hostForm.MatchString(hostname(x.r.Host)) {
		return x.serve(digest)
	}
	// As on AWS, layers come from S3, which a client in a VPC reaches through another endpoint.
	x.w.Header().Set("Location", *out.DownloadUrl)
	x.w.Header().Set("Docker-Content-Digest", digest)
	x.w.WriteHeader(http.StatusTemporaryRedirect)
	return nil
}

// uploads handles requests for an upload, or for a new one if id is empty.
func (x *exchange) uploads(id string) {
	var err error
	switch {
	case id == "" && x.r.Method == http.MethodPost:
		err = x.begin()
	case id == "":
		err = x.method(http.MethodPost)
	case x.r.Method == http.MethodPatch:
		if err = x.receive(id); err == nil {
			err = x.progress(id, http.StatusAccepted)
		}
	case x.r.Method == http.MethodPut:
		if err = x.receive(id); err == nil {
			err = x.complete(id, x.r.URL.Query().Get("digest"))
		}
	case x.r.Method == http.MethodGet:
		err = x.progress(id, http.StatusNoContent)
	default:
		err = x.method(http.MethodGet, http.MethodPatch, http.MethodPut)
	}
	x.answer(err)
}

// begin starts an upload. As on AWS by default, layers cannot be mounted from another repository, so the client uploads
// them.
func (x *exchange) begin() error {
	id, err := x.initiate()
	if err != nil {
		return err
	}
	if digest := x.r.URL.Query().Get("digest"); digest != "" { // the whole upload is in one request
		if err := x.receive(id); err != nil {
			return err
		}
		return x.complete(id, digest)
	}
	return x.progress(id, http.StatusAccepted)
}

func (x *exchange) initiate() (id string, err error) {
	if x.alias != "" {
		return x.initiatePublic()
	}
	in := &awsecr.InitiateLayerUploadInput{RegistryId: &x.account, RepositoryName: &x.repository}
	out, err := awsapi.Do[awsecr.InitiateLayerUploadOutput](x.ctx, x.cfg.API, in)
	if awserr.CodeOf(err) == "RepositoryNotFoundException" {
		created, failed := x.cfg.ECR.CreateOnPush(x.ctx, x.cfg.API, x.account, x.region, x.repository)
		if failed != nil {
			return "", failed
		}
		if created {
			out, err = awsapi.Do[awsecr.InitiateLayerUploadOutput](x.ctx, x.cfg.API, in)
		}
	}
	if err != nil {
		return "", err
	}
	return *out.UploadId, nil
}

// progress responds with the location of an upload and how much of it has been received.
func (x *exchange) progress(id string, status int) error {
	r, ok := x.contents()
	if !ok {
		return notFound("NAME_UNKNOWN", "the repository was deleted")
	}
	size, err := x.cfg.Images.Uploaded(r, id)
	if err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Location", x.base+x.repository+"/blobs/uploads/"+id)
	h.Set("Docker-Upload-Uuid", id)
	h.Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
	h.Set("Content-Length", "0")
	x.w.WriteHeader(status)
	return nil
}

// receive adds the request's body to an upload, in parts.
func (x *exchange) receive(id string) error {
	r, ok := x.contents()
	if !ok {
		return notFound("NAME_UNKNOWN", "the repository was deleted")
	}
	at, err := x.cfg.Images.Uploaded(r, id)
	if err != nil {
		return err
	}
	if first, _, ok := strings.Cut(x.r.Header.Get("Content-Range"), "-"); ok {
		if n, err := strconv.ParseInt(strings.TrimPrefix(first, "bytes "), 10, 64); err != nil || n != at {
			return &problem{http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", fmt.Sprintf("the upload has %d bytes, and the next do not follow them", at)}
		}
	}
	var part bytes.Buffer
	for {
		part.Reset()
		n, err := io.CopyN(&part, x.r.Body, imagestore.MaxPart)
		if err != nil && !errors.Is(err, io.EOF) {
			return &problem{http.StatusBadRequest, "BLOB_UPLOAD_INVALID", "the request ended early"}
		}
		if n == 0 {
			return nil
		}
		last := at + n - 1
		if x.alias != "" {
			err = x.uploadPublic(id, at, last, part.Bytes())
		} else {
			_, err = awsapi.Do[awsecr.UploadLayerPartOutput](x.ctx, x.cfg.API, &awsecr.UploadLayerPartInput{
				RegistryId: &x.account, RepositoryName: &x.repository, UploadId: &id, PartFirstByte: &at, PartLastByte: &last, LayerPartBlob: part.Bytes(),
			})
		}
		if err != nil {
			return err
		}
		at = last + 1
	}
}

func (x *exchange) complete(id, digest string) (err error) {
	if x.alias != "" {
		err = x.completePublic(id, digest)
	} else {
		_, err = awsapi.Do[awsecr.CompleteLayerUploadOutput](x.ctx, x.cfg.API, &awsecr.CompleteLayerUploadInput{
			RegistryId: &x.account, RepositoryName: &x.repository, UploadId: &id, LayerDigests: []string{digest},
		})
	}
	if err != nil && awserr.CodeOf(err) != "LayerAlreadyExistsException" { // the client wants the layer to exist
		return err
	}
	x.w.Header().Set("Location", x.base+x.repository+"/blobs/"+digest)
	x.w.Header().Set("Docker-Content-Digest", digest)
	x.w.WriteHeader(http.StatusCreated)
	return nil
}
