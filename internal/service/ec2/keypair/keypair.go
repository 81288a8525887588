package keypair

import (
	"context"
	"crypto/ed25519"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A KeyPair is stored under its name. Drydock does not store private keys.
type KeyPair struct {
	ID          string
	Name        string
	Type        string // rsa or ed25519
	PublicKey   string // in OpenSSH's format
	Fingerprint string
	Created     time.Time
	Tags        tag.Set `json:",omitempty"`
}

const keyNamePrefix = "name/"

// Key returns the key under which a pair is stored.
func Key(sc resource.Scope, name string) store.Key { return sc.Key(keyNamePrefix + name) }

// CreateKeyPair creates a key pair. The private key is in the response and is not stored.
func (s *Service) CreateKeyPair(ctx context.Context, in *awsec2.CreateKeyPairInput) (*awsec2.CreateKeyPairOutput, error) {
	sc := resource.ScopeOf(ctx)
	name, err := checkKeyName(in.KeyName)
	if err != nil {
		return nil, err
	}
	if in.KeyFormat != "" && in.KeyFormat != ec2types.KeyFormatPem && in.KeyFormat != ec2types.KeyFormatPpk {
		return nil, ec2err.InvalidValue(in.KeyFormat, "keyFormat", "")
	}
	if in.KeyFormat == ec2types.KeyFormatPpk {
		return nil, awserr.NotImplemented("KeyFormat=ppk of EC2 CreateKeyPair")
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeKeyPair)
	if err != nil {
		return nil, err
	}
	k := KeyPair{ID: ids.Resource("key"), Name: name, Created: s.Now(), Tags: tags}
	var material string
	switch in.KeyType {
	case "", ec2types.KeyTypeRsa:
		material, err = k.generateRSA()
	case ec2types.KeyTypeEd25519:
		material, err = k.generateEd25519()
	default:
		return nil, ec2err.InvalidValue(in.KeyType, "keyType", "")
	}
	if err != nil {
		return nil, err
	}
	if err := s.writeKeyPair(ctx, sc, in.DryRun, k); err != nil {
		return nil, err
	}
	return &awsec2.CreateKeyPairOutput{
		KeyName: aws.String(k.Name), KeyPairId: aws.String(k.ID), KeyFingerprint: aws.String(k.Fingerprint),
		KeyMaterial: aws.String(material), Tags: tags.SDK(),
	}, nil
}

func checkKeyName(name *string) (string, error) {
	n := aws.ToString(name)
	if n == "" {
		return "", ec2err.Missing("KeyName")
	}
	if len(n) > 255 || strings.TrimSpace(n) != n {
		return "", ec2err.InvalidValue(n, "KeyName", "Key names can be up to 255 ASCII characters long.")
	}
	for _, c := range n {
		if c < ' ' || c > '~' {
			return "", ec2err.InvalidValue(n, "KeyName", "Character sets beyond ASCII are not supported.")
		}
	}
	return n, nil
}

func (s *Service) writeKeyPair(ctx context.Context, sc resource.Scope, dryRun *bool, k KeyPair) error {
	return s.Update(ctx, dryRun, func(tx *store.Tx) error {
		err := KeyPairs.Create(tx, Key(sc, k.Name), k)
		if err == store.ErrExists {
			return ec2err.KeyDuplicate()
		}
		return err
	})
}

// generateRSA generates a 2048-bit key. Its fingerprint is the SHA-1 of the private key in PKCS #8.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/verify-keys.html
func (k *KeyPair) generateRSA() (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	pub, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		return "", err
	}
	sum := sha1.Sum(pkcs8)
	k.Type, k.Fingerprint, k.PublicKey = "rsa", colonHex(sum[:]), authorizedKey(pub, k.Name)
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return strings.TrimSuffix(string(pem.EncodeToMemory(block)), "\n"), nil
}

// generateEd25519 generates a key in OpenSSH's format. Its fingerprint is OpenSSH's SHA-256 without
// the prefix.
func (k *KeyPair) generateEd25519() (string, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	pub, err := ssh.NewPublicKey(public)
	if err != nil {
		return "", err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return "", err
	}
	k.Type, k.Fingerprint, k.PublicKey = "ed25519", sha256Fingerprint(pub), authorizedKey(pub, k.Name)
	return string(pem.EncodeToMemory(block)), nil
}

func authorizedKey(pub ssh.PublicKey, name string) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub))) + " " + name
}

func sha256Fingerprint(pub ssh.PublicKey) string {
	sum := sha256.Sum256(pub.Marshal())
	return base64.StdEncoding.EncodeToString(sum[:])
}

func colonHex(b []byte) string {
	parts := make([]string, len(b))
	for i, x := range b {
		parts[i] = hex.EncodeToString([]byte{x})
	}
	return strings.Join(parts, ":")
}

// ImportKeyPair stores a public key.
func (s *Service) ImportKeyPair(ctx context.Context, in *awsec2.ImportKeyPairInput) (*awsec2.ImportKeyPairOutput, error) {
	sc := resource.ScopeOf(ctx)
	name, err := checkKeyName(in.KeyName)
	if err != nil {
		return nil, err
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeKeyPair)
	if err != nil {
		return nil, err
	}
	if len(in.PublicKeyMaterial) == 0 {
		return nil, ec2err.Missing("PublicKeyMaterial")
	}
	k := KeyPair{ID: ids.Resource("key"), Name: name, Created: s.Now(), Tags: tags}
	if err := k.read(in.PublicKeyMaterial); err != nil {
		return nil, err
	}
	if err := s.writeKeyPair(ctx, sc, in.DryRun, k); err != nil {
		return nil, err
	}
	return &awsec2.ImportKeyPairOutput{
		KeyName: aws.String(k.Name), KeyPairId: aws.String(k.ID), KeyFingerprint: aws.String(k.Fingerprint), Tags: tags.SDK(),
	}, nil
}

// read parses a public key into k. The fingerprint of an imported RSA key is the MD5 of the public
// key in DER.
func (k *KeyPair) read(material []byte) error {
	pub, ok := parsePublicKey(material)
	if !ok {
		return ec2err.KeyFormat()
	}
	k.PublicKey = authorizedKey(pub, k.Name)
	switch pub.Type() {
	case ssh.KeyAlgoED25519:
		k.Type, k.Fingerprint = "ed25519", sha256Fingerprint(pub)
	case ssh.KeyAlgoRSA:
		crypto, ok := pub.(ssh.CryptoPublicKey)
		if !ok {
			return ec2err.KeyFormat()
		}
		// The key lengths are from
		// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ImportKeyPair.html
		key, ok := crypto.CryptoPublicKey().(*rsa.PublicKey)
		if !ok || !slices.Contains([]int{1024, 2048, 4096}, key.N.BitLen()) {
			return ec2err.KeyFormat()
		}
		der, err := x509.MarshalPKIXPublicKey(crypto.CryptoPublicKey())
		if err != nil {
			return ec2err.KeyFormat()
		}
		sum := md5.Sum(der)
		k.Type, k.Fingerprint = "rsa", colonHex(sum[:])
	default:
		return ec2err.KeyFormat()
	}
	return nil
}

// parsePublicKey parses the formats that EC2 imports: OpenSSH's, SSH2's (RFC 4716), and DER in PEM
// or Base64.
func parsePublicKey(material []byte) (ssh.PublicKey, bool) {
	text := strings.TrimSpace(string(material))
	if block, _ := pem.Decode(material); block != nil {
		return parseDER(block.Bytes)
	}
	if body, ok := strings.CutPrefix(text, "---- BEGIN SSH2 PUBLIC KEY ----"); ok {
		body, ok = strings.CutSuffix(body, "---- END SSH2 PUBLIC KEY ----")
		raw, err := base64.StdEncoding.DecodeString(withoutHeaders(body))
		if err != nil || !ok {
			return nil, false
		}
		pub, err := ssh.ParsePublicKey(raw)
		return pub, err == nil
	}
	if der, err := base64.StdEncoding.DecodeString(text); err == nil {
		return parseDER(der)
	}
	pub, _, _, rest, err := ssh.ParseAuthorizedKey(material)
	return pub, err == nil && len(strings.TrimSpace(string(rest))) == 0
}

func parseDER(der []byte) (ssh.PublicKey, bool) {
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, false
	}
	pub, err := ssh.NewPublicKey(parsed)
	return pub, err == nil
}

// withoutHeaders removes a key's headers, which a backslash continues, and its line breaks.
func withoutHeaders(body string) string {
	var b strings.Builder
	header := false
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if header || strings.Contains(line, ":") {
			header = strings.HasSuffix(line, "\\")
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// DescribeKeyPairs lists key pairs.
func (s *Service) DescribeKeyPairs(ctx context.Context, in *awsec2.DescribeKeyPairsInput) (*awsec2.DescribeKeyPairsOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, filter.Fields[KeyPair]{
		"fingerprint": filter.One(func(k KeyPair) string { return k.Fingerprint }),
		"key-name":    filter.One(func(k KeyPair) string { return k.Name }),
		"key-pair-id": filter.One(func(k KeyPair) string { return k.ID }),
	}, func(k KeyPair) tag.Set { return k.Tags })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	all := resource.List(s.Store, KeyPairs, sc, resource.All)
	for _, name := range in.KeyNames {
		if !slices.ContainsFunc(all, func(k KeyPair) bool { return k.Name == name }) {
			return nil, ec2err.KeyNotFound(name)
		}
	}
	for _, id := range in.KeyPairIds {
		if !slices.ContainsFunc(all, func(k KeyPair) bool { return k.ID == id }) {
			return nil, resource.KeyPairID.NotFound(id)
		}
	}
	out := &awsec2.DescribeKeyPairsOutput{KeyPairs: []ec2types.KeyPairInfo{}}
	for _, k := range all {
		if len(in.KeyNames)+len(in.KeyPairIds) > 0 && !slices.Contains(in.KeyNames, k.Name) && !slices.Contains(in.KeyPairIds, k.ID) || !match(k) {
			continue
		}
		info := ec2types.KeyPairInfo{
			KeyName: aws.String(k.Name), KeyPairId: aws.String(k.ID), KeyType: ec2types.KeyType(k.Type),
			KeyFingerprint: aws.String(k.Fingerprint), CreateTime: aws.Time(k.Created), Tags: k.Tags.SDK(),
		}
		if aws.ToBool(in.IncludePublicKey) {
			info.PublicKey = aws.String(k.PublicKey)
		}
		out.KeyPairs = append(out.KeyPairs, info)
	}
	return out, nil
}

// DeleteKeyPair deletes a key pair. It is not an error if the pair does not exist.
func (s *Service) DeleteKeyPair(ctx context.Context, in *awsec2.DeleteKeyPairInput) (*awsec2.DeleteKeyPairOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.KeyName == nil && in.KeyPairId == nil {
		return nil, ec2err.Missing("KeyName")
	}
	out := &awsec2.DeleteKeyPairOutput{Return: aws.Bool(true)}
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		out.KeyPairId = nil
		found := resource.List(tx, KeyPairs, sc, func(k KeyPair) bool {
			if in.KeyPairId != nil {
				return k.ID == *in.KeyPairId
			}
			return k.Name == *in.KeyName
		})
		for _, k := range found {
			out.KeyPairId = aws.String(k.ID)
			KeyPairs.Delete(tx, Key(sc, k.Name))
		}
		return nil
	})
	return out, err
}

// PublicKey returns a pair's public key in OpenSSH's format, or false if there is no such pair.
func (s *Service) PublicKey(account, region, name string) (string, bool) {
	k, err := KeyPairs.Get(s.Store, Key(resource.Scope{Account: account, Region: region}, name))
	return k.PublicKey, err == nil
}

// Tagged gives access to tags by ID, whereas pairs are stored by name.
func Tagged() resource.Taggable {
	return resource.Taggable{
		ID: resource.KeyPairID, Kind: ec2types.ResourceTypeKeyPair,
		Edit: func(tx *store.Tx, sc resource.Scope, id string, fn func(tag.Set) (tag.Set, error)) error {
			found := resource.List(tx, KeyPairs, sc, func(k KeyPair) bool { return k.ID == id })
			if len(found) == 0 {
				return resource.KeyPairID.NotFound(id)
			}
			return KeyPairs.Update(tx, Key(sc, found[0].Name), func(k *KeyPair) (err error) {
				k.Tags, err = fn(k.Tags)
				return err
			})
		},
		List: func(r store.Reader, sc resource.Scope) []resource.TaggedResource {
			var out []resource.TaggedResource
			for _, k := range resource.List(r, KeyPairs, sc, resource.All) {
				out = append(out, resource.TaggedResource{ID: k.ID, Tags: k.Tags})
			}
			return out
		},
	}
}

var KeyPairs = store.NewCollection[KeyPair]("ec2", "key-pair")
