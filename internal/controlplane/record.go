package controlplane

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// A record is a plane as the store keeps it. A plane without an owner is a spare.
type record struct {
	ID    string
	Owner string
	// Host is the plane's host name on AWS if it does not follow from the ID; see awsHost.
	Host string `json:",omitempty"`
	Key  Key
	// Port is the endpoint's; 0 until it has first listened.
	Port   int
	Access Access
	// KMSKey is the key that encrypts the plane's data, or empty if it is not encrypted. Once set, it never changes.
	// Encrypted says that older data has been encrypted, too.
	KMSKey    string `json:",omitempty"`
	Encrypted bool   `json:",omitempty"`
	// Sealed says that all data has been encrypted since the plane was created, or that older data has been encrypted.
	Sealed bool `json:",omitempty"`
	// Logging are the components whose logs are wanted.
	Logging []string `json:",omitempty"`
	// IdentityProvider is the OIDC provider whose tokens the API server accepts, or nil.
	IdentityProvider *IdentityProvider `json:",omitempty"`
	// CopyOf is the ID of the original if this plane is a copy for a rehearsal, and otherwise empty.
	CopyOf string `json:",omitempty"`
	// Releasing is set in the first step of a release, so that a crash during the release does not bring the plane
	// back.
	Releasing bool
	CreatedAt time.Time
}

// secrets are a plane's keys. They are separate from its record so that changing one does not write the other.
type secrets struct {
	CA         authority
	Trusted    []authority `json:",omitempty"` // other authorities of clients and servers
	FrontProxy authority
	SigningKey []byte
	DataKey    []byte // see ownedKey
}

// systemAccount owns the records that belong to no AWS account. It is not a valid account number.
const systemAccount = "drydock"

func recordKey(id string) store.Key { return store.Key{Account: systemAccount, ID: id} }

// The collections.
var (
	records       = store.NewCollection[record]("controlplane", "plane", store.Same, store.Same, store.Same, store.Same, store.Same, store.Same) // version 2 has Logging, 3 IdentityProvider, 4 CopyOf, 5 Sealed, 6 Host, 7 Key.Settings
	secretRecords = store.NewCollection[secrets]("controlplane", "secret", store.Same, store.Same, store.Same)                                   // version 2 has Trusted, 3 DataKey, 4 AddedAt
	// lastKeys holds one record: the key that was claimed last, for which spares are kept running.
	lastKeys = store.NewCollection[Key]("controlplane", "lastkey", store.Same) // version 2 has Settings
)

func newRecord(key Key, owner string, now time.Time) record {
	return record{
		ID:        strings.ToUpper(ids.Hex(32)),
		Owner:     owner,
		Key:       key,
		Access:    Access{Public: true},
		Sealed:    true,
		CreatedAt: now,
	}
}

func newSecrets(now time.Time) (secrets, error) {
	s := secrets{DataKey: newDataKey()}
	var err error
	if s.CA, err = newAuthority("kubernetes", now); err != nil {
		return s, err
	}
	if s.FrontProxy, err = newAuthority("front-proxy-ca", now); err != nil {
		return s, err
	}
	s.SigningKey, err = newSigningKey()
	return s, err
}

// kind returns the part of the key that is fixed when a plane is created.
func (k Key) kind() Key {
	k.Account, k.Name = "", ""
	return k
}

func (k Key) validate() error {
	if _, ok := eksversions.Lookup(k.Version); !ok {
		return fmt.Errorf("no Kubernetes version %q", k.Version)
	}
	if k.Region == "" {
		return fmt.Errorf("a control plane needs a region")
	}
	if _, err := netip.ParsePrefix(k.ServiceCIDR); err != nil {
		return fmt.Errorf("service CIDR: %w", err)
	}
	return nil
}

// gitVersion returns v1.N.P-eks-1234567, the same for every cluster of a platform version.
func (k Key) gitVersion() string {
	v, _ := eksversions.Lookup(k.Version)
	sum := sha256.Sum256([]byte(v.Patch + " " + v.PlatformVersion))
	return "v" + v.Patch + "-eks-" + hex.EncodeToString(sum[:])[:7]
}

// dnsSuffix returns the DNS suffix of the region's partition.
func (k Key) dnsSuffix() string {
	if strings.HasPrefix(k.Region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// awsHost returns 0123….gr7.us-east-1.eks.amazonaws.com or, for IPv6, 0123….gr7.eks-cluster.us-east-1.api.aws. The
// meaning of the second label is not public; few values exist.
func (r record) awsHost() string {
	if r.Host != "" {
		return r.Host
	}
	cells := []string{"gr7", "sk1", "yl4", "ra1"}
	if r.Key.IPFamily == "ipv6" { // https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
		return fmt.Sprintf("%s.%s.eks-cluster.%s.api.aws", r.ID, cells[int(r.ID[0])%len(cells)], r.Key.Region)
	}
	return fmt.Sprintf("%s.%s.%s.eks.%s", r.ID, cells[int(r.ID[0])%len(cells)], r.Key.Region, r.Key.dnsSuffix())
}

// issuer returns the issuer of service account tokens. A copy has the issuer of the original, so that existing tokens
// stay valid:
// https://oidc.eks.us-east-1.amazonaws.com/id/0123….
// https://docs.aws.amazon.com/eks/latest/userguide/enable-iam-roles-for-service-accounts.html
func (r record) issuer() string {
	return fmt.Sprintf("https://oidc.eks.%s.%s/id/%s", r.Key.Region, r.Key.dnsSuffix(), cmp.Or(r.CopyOf, r.ID))
}

// hosts returns the names and addresses for which the API server's certificate is valid.
func (r record) hosts(listenAddress string) []string {
	hosts := []string{
		r.awsHost(), "localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	if p, err := netip.ParsePrefix(r.Key.ServiceCIDR); err == nil {
		hosts = append(hosts, p.Masked().Addr().Next().String())
	}
	if !slices.Contains(hosts, listenAddress) && !net.ParseIP(listenAddress).IsUnspecified() {
		hosts = append(hosts, listenAddress)
	}
	return hosts
}
