package imagestore

import (
	"encoding/json"
	"strings"

	"github.com/opencontainers/go-digest"
)

// The media types of manifests.
// https://github.com/opencontainers/image-spec/blob/main/media-types.md
// https://github.com/distribution/distribution/blob/main/docs/content/spec/manifest-v2-2.md
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	ociIndex       = "application/vnd.oci.image.index.v1+json"
)

type descriptor struct {
	MediaType string        `json:"mediaType"`
	Digest    digest.Digest `json:"digest"`
	Size      int64         `json:"size"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	ArtifactType  string       `json:"artifactType"`
	Config        *descriptor  `json:"config"`
	Layers        []descriptor `json:"layers"`
	Manifests     []descriptor `json:"manifests"`
	Subject       *descriptor  `json:"subject"`
}

// DigestOf returns the digest of a manifest.
func DigestOf(manifest string) string { return digest.FromString(manifest).String() }

// parse parses a manifest. mediaType is the media type that the client gave, if any.
func parse(raw, mediaType string) (imageRecord, error) {
	var m manifest
	out := imageRecord{Digest: DigestOf(raw)}
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		return out, errManifest("it is not JSON")
	}
	if m.SchemaVersion != 2 {
		return out, errManifest("schemaVersion must be 2")
	}
	out.MediaType = m.MediaType
	switch {
	case m.MediaType != "" && mediaType != "" && m.MediaType != mediaType:
		return out, errManifest("its media type is " + m.MediaType + ", not " + mediaType)
	case m.MediaType != "":
	case mediaType != "":
		out.MediaType = mediaType
	case m.Manifests != nil:
		out.MediaType = ociIndex
	default:
		out.MediaType = ociManifest
	}
	digests := func(of []descriptor) (out []string, err error) {
		for _, d := range of {
			if d.Digest.Validate() != nil {
				return nil, errManifest("the digest " + string(d.Digest) + " is not valid")
			}
			out = append(out, d.Digest.String())
		}
		return out, nil
	}
	var err error
	switch out.MediaType {
	case dockerList, ociIndex:
		out.ArtifactType = m.ArtifactType
		out.Size = int64(len(raw))
		if out.Children, err = digests(m.Manifests); err != nil {
			return out, err
		}
	case dockerManifest, ociManifest:
		if m.Config == nil {
			return out, errManifest("it has no config")
		}
		out.ArtifactType = m.Config.MediaType
		if m.ArtifactType != "" {
			out.ArtifactType = m.ArtifactType
		}
		parts := []descriptor{*m.Config}
		for _, l := range m.Layers {
			if !foreign(l.MediaType) {
				parts = append(parts, l)
				out.Size += l.Size
			}
		}
		if out.Layers, err = digests(parts); err != nil {
			return out, err
		}
		out.Size += m.Config.Size
	default:
		return out, errManifest("the media type " + out.MediaType + " is not supported")
	}
	if m.Subject != nil {
		out.Subject = m.Subject.Digest.String()
	}
	return out, nil
}

// foreign reports whether layers of a media type are stored outside the registry, such as those of Windows.
func foreign(mediaType string) bool {
	return strings.Contains(mediaType, "foreign") || strings.Contains(mediaType, "nondistributable")
}
