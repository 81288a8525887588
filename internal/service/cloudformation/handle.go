package cloudformation

import (
	"crypto/md5" //nolint:gosec // the ETag of S3
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// A wait condition's handle is a presigned URL of an S3 bucket that belongs to AWS. Anyone who has the URL can send
// signals to it. https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-waitcondition.html

const (
	handleType = "AWS::CloudFormation::WaitConditionHandle"
	// bucketPrefix and the region make the bucket's name.
	bucketPrefix = "cloudformation-waitcondition-"
	// handleLife is how long the URL can be used.
	handleLife = 12 * time.Hour
	// maxSignal limits the size of a signal to a handle, maxSignals the number of signals that a resource keeps, and
	// maxReceived the total size of the signals that a handle keeps.
	maxSignal   = 64 << 10
	maxSignals  = 1000
	maxReceived = 1 << 20
	timeForm    = "20060102T150405Z"
)

// newHandle returns the URL of a handle. Its signature is random, because Drydock only compares it.
func (r *request) newHandle() (string, error) {
	var signature [32]byte
	_, _ = rand.Read(signature[:]) // never fails
	at := r.o.s.now().Format(timeForm)
	region := r.o.key.Region
	return fmt.Sprintf("https://%s%s.s3.%[2]s.amazonaws.com/%s/%s/%s?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=%s&X-Amz-SignedHeaders=host&X-Amz-Expires=%d&X-Amz-Credential=%s&X-Amz-Signature=%s",
		bucketPrefix, region, url.QueryEscape(r.o.arn), r.token, r.logical, at, int(handleLife.Seconds())-1,
		url.QueryEscape("AKIA"+strings.ToUpper(hex.EncodeToString(signature[:8]))+"/"+at[:8]+"/"+region+"/s3/aws4_request"), hex.EncodeToString(signature[:])), nil
}

// ServesHandle reports whether a request is for the URL of a handle.
func ServesHandle(r *http.Request) bool { return strings.HasPrefix(r.Host, bucketPrefix) }

// handleKey returns the resource that a handle's path names.
func handleKey(path string) (key store.Key, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	// The ARN's own slashes are not escaped once the path is decoded.
	if len(parts) != 5 {
		return key, false
	}
	a, err := arn.Parse(strings.Join(parts[:3], "/"))
	if err != nil || a.Service != "cloudformation" || !strings.HasPrefix(a.Resource, "stack/") {
		return key, false
	}
	return below(store.Key{Account: a.Account, Region: a.Region, ID: parts[2]}, parts[4]), true
}

// A handleSignal is the body that is put at the URL of a handle.
type handleSignal struct{ Status, Reason, UniqueId, Data string } //nolint:staticcheck // AWS's names

// ServeHandle accepts a signal for a wait condition, as S3 would. allowed reports whether the VPC endpoint that the
// request came through, if any, allows an action on an object.
func (s *Service) ServeHandle(w http.ResponseWriter, r *http.Request, allowed func(action, object string) bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxSignal+1))
	key, ok := handleKey(r.URL.Path)
	region, _, _ := strings.Cut(strings.TrimPrefix(r.Host, bucketPrefix), ".")
	switch {
	case err != nil:
		s3Error(w, http.StatusBadRequest, "IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header")
	case len(body) > maxSignal:
		s3Error(w, http.StatusBadRequest, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size")
	case r.Method != http.MethodPut:
		s3Error(w, http.StatusForbidden, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. Check your key and signing method.")
	case !ok || region != key.Region || !allowed("s3:PutObject", "arn:aws:s3:::"+bucketPrefix+region+r.URL.Path):
		s3Error(w, http.StatusForbidden, "AccessDenied", "Access Denied")
	default:
		s.putSignal(w, r, key, body)
	}
}

func (s *Service) putSignal(w http.ResponseWriter, r *http.Request, key store.Key, body []byte) {
	err := s.store.Update(r.Context(), func(tx *store.Tx) error {
		rec, err := resources.Get(tx, key)
		if err != nil {
			return err
		}
		handle, err := url.Parse(rec.PhysicalID)
		if err != nil {
			return err
		}
		given, made := r.URL.Query(), handle.Query()
		at, err := time.Parse(timeForm, made.Get("X-Amz-Date"))
		if err != nil {
			return err
		}
		switch {
		case rec.Type != handleType || handle.Path != r.URL.Path || given.Get("X-Amz-Signature") != made.Get("X-Amz-Signature"):
			return errForged
		case s.now().After(at.Add(handleLife)):
			return errExpired
		}
		var in handleSignal
		if json.Unmarshal(body, &in) != nil || in.Status != "SUCCESS" && in.Status != "FAILURE" || in.UniqueId == "" {
			return nil // S3 accepts any object; CloudFormation ignores this one
		}
		size := len(body)
		for _, have := range rec.Signals {
			size += len(have.ID) + len(have.Reason) + len(have.Data)
		}
		if len(rec.Signals) == maxSignals || size > maxReceived || slices.ContainsFunc(rec.Signals, func(have signalRecord) bool { return have.ID == in.UniqueId }) {
			return nil
		}
		rec.Signals = append(slices.Clone(rec.Signals), signalRecord{ID: in.UniqueId, Success: in.Status == "SUCCESS", Reason: in.Reason, Data: in.Data})
		return resources.Put(tx, key, rec)
	})
	switch {
	case err == nil:
		sum := md5.Sum(body) //nolint:gosec // the ETag of S3
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	case errors.Is(err, errExpired):
		s3Error(w, http.StatusForbidden, "AccessDenied", "Request has expired")
	case errors.Is(err, errForged), store.IsNotFound(err):
		s3Error(w, http.StatusForbidden, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. Check your key and signing method.")
	default:
		s.log.Error("recording a signal of a wait condition", "err", err)
		s3Error(w, http.StatusInternalServerError, "InternalError", "We encountered an internal error. Please try again.")
	}
}

var (
	errExpired = errors.New("the URL has expired")
	errForged  = errors.New("the URL is not that of a handle")
)

// s3Error writes an error of S3.
func s3Error(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header) // an error means that the client has disconnected
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
		RequestID     string `xml:"RequestId"`
	}{Code: code, Message: message, RequestID: ids.UUID()})
}

// signals returns the signals that a resource has received, those of a wait condition's handle included.
func (r *request) signals() []signalRecord {
	rec, _ := r.o.resource(r.logical)
	out := rec.Signals
	handle, err := url.Parse(r.text("Handle"))
	if r.typ != waitCondition || err != nil {
		return out
	}
	key, ok := handleKey(handle.Path)
	if !ok || key.Account != r.o.key.Account || key.Region != r.o.key.Region {
		return out
	}
	if of, err := resources.Get(r.o.s.store, key); err == nil && of.Type == handleType && of.PhysicalID == handle.String() {
		out = append(slices.Clone(out), of.Signals...)
	}
	return out
}

// signalData returns the data of the successful signals by their unique IDs, as a JSON text.
func (r *request) signalData() string {
	m := &template.Map{}
	for _, s := range r.signals() {
		if s.Success {
			m.Set(s.ID, s.Data)
		}
	}
	return template.JSON(m)
}
