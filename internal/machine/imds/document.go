package imds

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Cause returns the kind of the error, for code that explains it.
func (e *RoleError) Cause() string { return e.Code }

func asRoleError(err error) (*RoleError, bool) { return errors.AsType[*RoleError](err) }

// quote returns a JSON string.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // strings always encode
		return `""`
	}
	return string(b)
}

// document returns the instance identity document, member by member as AWS writes it.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-identity-documents.html
func document(in *Instance) []byte {
	var b strings.Builder
	b.WriteString("{\n")
	for _, m := range [][2]string{
		{"accountId", quote(in.Account)},
		{"architecture", quote(in.Image.Architecture)},
		{"availabilityZone", quote(in.AvailabilityZone)},
		{"billingProducts", "null"},
		{"devpayProductCodes", "null"},
		{"marketplaceProductCodes", "null"},
		{"imageId", quote(in.Image.ID)},
		{"instanceId", quote(in.ID)},
		{"instanceType", quote(in.Type.Name)},
		{"kernelId", "null"},
		{"pendingTime", quote(in.LaunchTime.UTC().Format(timeForm))},
		{"privateIp", quote(addr(in.PrivateIP))},
		{"ramdiskId", "null"},
		{"region", quote(in.Region)},
	} {
		fmt.Fprintf(&b, "  %q : %s,\n", m[0], m[1])
	}
	b.WriteString("  \"version\" : \"2017-09-30\"\n}")
	return []byte(b.String())
}

// dynamic returns the categories below dynamic.
func (s *Service) dynamic(in *Instance) tree {
	t := tree{}
	doc := document(in)
	const dir = "instance-identity/"
	t.set(dir+"document", string(doc))
	t[dir+"signature"] = func(ctx context.Context) ([]byte, error) {
		id, err := s.identity(ctx)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(doc)
		sig, err := rsa.SignPKCS1v15(rand.Reader, id.Key, crypto.SHA256, sum[:])
		return lines(sig), err
	}
	t[dir+"pkcs7"] = func(ctx context.Context) ([]byte, error) { return s.pkcs7(ctx, doc) }
	t[dir+"rsa2048"] = t[dir+"pkcs7"]
	return t
}

// lines returns base64 in lines of 64 characters, without a header.
func lines(b []byte) []byte {
	text := base64.StdEncoding.EncodeToString(b)
	var out []string
	for len(text) > 64 {
		out, text = append(out, text[:64]), text[64:]
	}
	return []byte(strings.Join(append(out, text), "\n"))
}

// The parts of a PKCS #7 SignedData (RFC 2315, 9) that are needed for a signature over plain data with one signer.
type (
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue // [0] EXPLICIT
	}
	signedData struct {
		Version          int
		DigestAlgorithms []pkix.AlgorithmIdentifier `asn1:"set"`
		Content          contentInfo
		Signers          []signer `asn1:"set"`
	}
	signer struct {
		Version         int
		Certificate     issuerAndSerial
		DigestAlgorithm pkix.AlgorithmIdentifier
		Algorithm       pkix.AlgorithmIdentifier
		Signature       []byte
	}
	issuerAndSerial struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
)

func algorithm(oid ...int) pkix.AlgorithmIdentifier {
	return pkix.AlgorithmIdentifier{Algorithm: oid, Parameters: asn1.NullRawValue}
}

// content wraps DER content of the given type.
func content(der []byte, oid ...int) contentInfo {
	return contentInfo{Type: oid, Content: asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: der}}
}

// pkcs7 signs a document. The signature contains the document, as openssl smime -verify -inform PEM -certfile
// CERTIFICATE -noverify expects.
func (s *Service) pkcs7(ctx context.Context, doc []byte) ([]byte, error) {
	id, err := s.identity(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(doc)
	sig, err := rsa.SignPKCS1v15(rand.Reader, id.Key, crypto.SHA256, sum[:])
	if err != nil {
		return nil, fmt.Errorf("signing an identity document: %w", err)
	}
	data, err := asn1.Marshal(doc) // OCTET STRING
	if err != nil {
		return nil, fmt.Errorf("signing an identity document: %w", err)
	}
	digest := algorithm(2, 16, 840, 1, 101, 3, 4, 2, 1) // sha256
	der, err := asn1.Marshal(signedData{
		Version:          1,
		DigestAlgorithms: []pkix.AlgorithmIdentifier{digest},
		Content:          content(data, 1, 2, 840, 113549, 1, 7, 1), // data
		Signers: []signer{{
			Version:         1,
			Certificate:     issuerAndSerial{asn1.RawValue{FullBytes: id.Certificate.RawIssuer}, id.Certificate.SerialNumber},
			DigestAlgorithm: digest,
			Algorithm:       algorithm(1, 2, 840, 113549, 1, 1, 1), // rsaEncryption
			Signature:       sig,
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("signing an identity document: %w", err)
	}
	der, err = asn1.Marshal(content(der, 1, 2, 840, 113549, 1, 7, 2)) // signedData
	return lines(der), err
}

// VerifyDocument returns the instance ID in an identity document, or an error if the service did not sign the
// document.
func (s *Service) VerifyDocument(ctx context.Context, doc, signature []byte) (instanceID string, err error) {
	id, err := s.identity(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(doc)
	if err := rsa.VerifyPKCS1v15(&id.Key.PublicKey, crypto.SHA256, sum[:], signature); err != nil {
		return "", fmt.Errorf("the signature of an identity document: %w", err)
	}
	var parsed struct {
		InstanceID string `json:"instanceId"`
	}
	if err := json.Unmarshal(doc, &parsed); err != nil {
		return "", fmt.Errorf("reading an identity document: %w", err)
	}
	return parsed.InstanceID, nil
}
