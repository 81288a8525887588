package s3

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// maxKeys is the maximum size of a page, which is also the default.
const maxKeys = 1000

// A listing is a page of the keys that have a prefix. Keys that are the same up to the next delimiter are shown as one.
// Its position is not a paging.Cursor: ListObjects and ListObjectVersions have keys instead of tokens, and an empty token
// of ListObjectsV2 is an error.
type listing struct {
	prefix, delimiter string
	after             string // the last key or common prefix of the previous page
	// marker says that after comes from a marker. One below a common prefix is behind that prefix: [recorded]
	// test_s3_list_operations, test_list_objects_marker_common_prefixes
	marker bool
	left   int

	prefixes  []s3types.CommonPrefix
	last      string
	truncated bool
	encode    func(string) *string
}

func newListing(prefix, delimiter *string, after string, size *int32, encoding s3types.EncodingType) (*listing, int32, error) {
	n := aws.ToInt32(cmp.Or(size, aws.Int32(maxKeys)))
	if n < 0 {
		return nil, 0, errArgument("maxKeys", "", "Argument maxKeys must be an integer between 0 and 2147483647")
	}
	n = min(n, maxKeys)
	l := &listing{prefix: aws.ToString(prefix), delimiter: aws.ToString(delimiter), after: after, left: int(n), encode: aws.String}
	if encoding != "" {
		if encoding != s3types.EncodingTypeUrl {
			return nil, 0, errArgument("encoding-type", string(encoding), "Invalid Encoding Method specified in Request")
		}
		l.encode = func(s string) *string { return aws.String(strings.ReplaceAll(url.QueryEscape(s), "%2F", "/")) }
	}
	return l, n, nil
}

// A turn says what to do with a key.
type turn int

const (
	skip turn = iota // it is not on the page, or is part of a common prefix
	show
	stop // the page is full
)

// take decides what to do with the next key. Keys must come in order.
func (l *listing) take(key string) turn {
	if !strings.HasPrefix(key, l.prefix) {
		return skip
	}
	item, common := key, false
	if l.delimiter != "" {
		if before, _, found := strings.Cut(key[len(l.prefix):], l.delimiter); found {
			item, common = l.prefix+before+l.delimiter, true
		}
	}
	if common && (item == l.after || l.marker && strings.HasPrefix(l.after, item) || item == l.last) {
		return skip
	}
	if l.left == 0 {
		l.truncated = true
		return stop
	}
	l.left--
	l.last = item
	if common {
		l.prefixes = append(l.prefixes, s3types.CommonPrefix{Prefix: l.encode(item)})
		return skip
	}
	return show
}

// keys calls fn for the objects on the page.
func (s *Service) keys(b *bucket, l *listing, fn func(*objectRecord)) {
	after := ""
	if l.after != "" {
		after = b.objectKey(l.after).ID
	}
	if l.left == 0 {
		return
	}
	objects.Scan(s.store, b.all(l.prefix), after, func(_ store.Key, o objectRecord) bool {
		if o.Marker {
			return true
		}
		t := l.take(o.Key)
		if t == show {
			fn(&o)
		}
		return t != stop
	})
}

func (o *objectRecord) listed(l *listing, owner *s3types.Owner) s3types.Object {
	out := s3types.Object{
		Key: l.encode(o.Key), ETag: quoted(o.ETag), LastModified: &o.Modified, Size: &o.Size, Owner: owner,
		StorageClass: s3types.ObjectStorageClass(cmp.Or(o.StorageClass, string(s3types.StorageClassStandard))),
	}
	if o.Checksum.Algorithm != "" {
		out.ChecksumAlgorithm = []s3types.ChecksumAlgorithm{s3types.ChecksumAlgorithm(o.Checksum.Algorithm)}
		out.ChecksumType = s3types.ChecksumType(o.Checksum.typ())
	}
	return out
}

// ListObjectsV2 lists the keys of a bucket.
func (s *Service) ListObjectsV2(ctx context.Context, in *awss3.ListObjectsV2Input) (*awss3.ListObjectsV2Output, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	after := aws.ToString(in.StartAfter)
	if in.ContinuationToken != nil {
		raw, err := base64.RawURLEncoding.DecodeString(*in.ContinuationToken)
		if err != nil || len(raw) == 0 {
			return nil, errArgument("continuation-token", *in.ContinuationToken, "The continuation token provided is incorrect")
		}
		after = string(raw)
	}
	l, size, err := newListing(in.Prefix, in.Delimiter, after, in.MaxKeys, in.EncodingType)
	if err != nil {
		return nil, err
	}
	out := &awss3.ListObjectsV2Output{
		Name: &b.Name, Prefix: l.encode(l.prefix), MaxKeys: &size, EncodingType: in.EncodingType, ContinuationToken: in.ContinuationToken,
	}
	if l.delimiter != "" {
		out.Delimiter = l.encode(l.delimiter)
	}
	if in.StartAfter != nil && in.ContinuationToken == nil {
		out.StartAfter = l.encode(*in.StartAfter)
	}
	var owner *s3types.Owner
	if aws.ToBool(in.FetchOwner) {
		owner = &s3types.Owner{ID: canonicalID(b.key.Account)}
	}
	s.keys(&b, l, func(o *objectRecord) { out.Contents = append(out.Contents, o.listed(l, owner)) })
	out.CommonPrefixes, out.IsTruncated = l.prefixes, &l.truncated
	out.KeyCount = aws.Int32(int32(len(out.Contents) + len(l.prefixes)))
	if l.truncated {
		out.NextContinuationToken = aws.String(base64.RawURLEncoding.EncodeToString([]byte(l.last)))
	}
	return out, nil
}

// ListObjects is like ListObjectsV2, but has keys instead of tokens.
func (s *Service) ListObjects(ctx context.Context, in *awss3.ListObjectsInput) (*awss3.ListObjectsOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	l, size, err := newListing(in.Prefix, in.Delimiter, aws.ToString(in.Marker), in.MaxKeys, in.EncodingType)
	if err != nil {
		return nil, err
	}
	l.marker = true
	out := &awss3.ListObjectsOutput{Name: &b.Name, Prefix: l.encode(l.prefix), Marker: l.encode(l.after), MaxKeys: &size, EncodingType: in.EncodingType}
	owner := &s3types.Owner{ID: canonicalID(b.key.Account)}
	s.keys(&b, l, func(o *objectRecord) { out.Contents = append(out.Contents, o.listed(l, owner)) })
	out.CommonPrefixes, out.IsTruncated = l.prefixes, &l.truncated
	if l.delimiter != "" {
		out.Delimiter = l.encode(l.delimiter)
		if l.truncated {
			out.NextMarker = l.encode(l.last)
		}
	}
	return out, nil
}

// ListObjectVersions lists the versions and delete markers of a bucket: by key, the newest first.
func (s *Service) ListObjectVersions(ctx context.Context, in *awss3.ListObjectVersionsInput) (*awss3.ListObjectVersionsOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	marker, within := aws.ToString(in.KeyMarker), aws.ToString(in.VersionIdMarker)
	if marker == "" && within != "" {
		return nil, errArgument("version-id-marker", within, "A version-id marker cannot be specified without a key marker.")
	}
	l, size, err := newListing(in.Prefix, in.Delimiter, marker, in.MaxKeys, in.EncodingType)
	if err != nil {
		return nil, err
	}
	l.marker = true
	out := &awss3.ListObjectVersionsOutput{
		Name: &b.Name, Prefix: l.encode(l.prefix), MaxKeys: &size, EncodingType: in.EncodingType, KeyMarker: l.encode(marker), VersionIdMarker: &within,
	}
	if l.delimiter != "" {
		out.Delimiter = l.encode(l.delimiter)
	}
	owner, lastVersion := &s3types.Owner{ID: canonicalID(b.key.Account)}, ""
	add := func(o *objectRecord, latest bool) {
		lastVersion = o.Version
		if o.Marker {
			out.DeleteMarkers = append(out.DeleteMarkers, s3types.DeleteMarkerEntry{Key: l.encode(o.Key), VersionId: &o.Version, IsLatest: &latest, LastModified: &o.Modified, Owner: owner})
			return
		}
		shown := o.listed(l, owner)
		out.Versions = append(out.Versions, s3types.ObjectVersion{
			Key: shown.Key, VersionId: &o.Version, IsLatest: &latest, LastModified: shown.LastModified, Owner: owner, ETag: shown.ETag, Size: shown.Size,
			StorageClass: s3types.ObjectVersionStorageClass(shown.StorageClass), ChecksumAlgorithm: shown.ChecksumAlgorithm, ChecksumType: shown.ChecksumType,
		})
	}
	skipping := within != "" // versions of the marker's key up to the marker
	visit := func(o *objectRecord, latest bool) bool {
		if o.Key == marker {
			if skipping {
				skipping = o.Version != within
				return true
			}
			if within == "" {
				return true
			}
		}
		t := l.take(o.Key)
		if t == show {
			add(o, latest)
		}
		return t != stop
	}
	if l.left > 0 {
		s.allVersions(&b, l.prefix, marker, visit)
	}
	out.CommonPrefixes, out.IsTruncated = l.prefixes, &l.truncated
	if l.truncated {
		out.NextKeyMarker = l.encode(l.last)
		if lastVersion != "" {
			out.NextVersionIdMarker = &lastVersion
		}
	}
	return out, nil
}

// allVersions calls fn for all versions of the keys that have a prefix, starting at a key, until fn returns false.
func (s *Service) allVersions(b *bucket, prefix, from string, fn func(o *objectRecord, latest bool) bool) {
	older := noncurrent.All(s.store, b.all(hex.EncodeToString([]byte(prefix))))
	more := true
	// emit calls fn for the noncurrent versions of keys up to upTo, or of all other keys.
	emit := func(upTo string, all bool) {
		for more && len(older) > 0 && (all || older[0].Value.Key <= upTo) {
			if older[0].Value.Key >= from {
				more = fn(&older[0].Value, false)
			}
			older = older[1:]
		}
	}
	for _, o := range objects.All(s.store, b.all(prefix)) {
		if o.Value.Key < from {
			continue
		}
		if more = more && fn(&o.Value, true); !more {
			return
		}
		emit(o.Value.Key, false)
	}
	emit("", true)
}
