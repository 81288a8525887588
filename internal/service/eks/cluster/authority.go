package cluster

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxAuthorities is how many certificate authorities a cluster can have.
const maxAuthorities = 2

// CreateCertificateAuthority adds a successor to a cluster's certificate authority, which the cluster trusts from then on.
// The cluster reconciler does the work.
// https://docs.aws.amazon.com/eks/latest/userguide/certificate-authority-rotation.html
func (s *Service) CreateCertificateAuthority(ctx context.Context, in *awseks.CreateCertificateAuthorityInput) (*awseks.CreateCertificateAuthorityOutput, error) {
	id := "ca-" + ids.Hex(17)
	update, ca, err := s.changeAuthority(ctx, in.ClusterName, in.ClientRequestToken, record.Fingerprint(in), record.AuthorityCreate, id, func(c *record.Cluster) error {
		if len(c.Authorities) >= maxAuthorities {
			return errAuthorities(c.Name())
		}
		c.Authorities = append(slices.Clone(c.Authorities), ekstypes.CertificateAuthority{
			Id: &id, CreatedAt: new(s.Now()), CreatedBy: ekstypes.CertificateAuthorityCreatedByCustomer,
			SigningStatus: ekstypes.CertificateAuthoritySigningStatusNotUsed, DistributionStatus: ekstypes.CertificateAuthorityDistributionStatusInProgress,
			RollbackAvailable: new(false),
		})
		return nil
	})
	return &awseks.CreateCertificateAuthorityOutput{Update: update, CertificateAuthority: ca}, err
}

// ActivateCertificateAuthority makes one of a cluster's certificate authorities the one that signs.
// https://docs.aws.amazon.com/eks/latest/userguide/certificate-authority-rotation.html
func (s *Service) ActivateCertificateAuthority(ctx context.Context, in *awseks.ActivateCertificateAuthorityInput) (*awseks.ActivateCertificateAuthorityOutput, error) {
	update, ca, err := s.changeAuthority(ctx, in.ClusterName, in.ClientRequestToken, record.Fingerprint(in), record.AuthorityActivate, aws.ToString(in.CertificateAuthorityId), func(c *record.Cluster) error {
		ca, err := editAuthority(c, *in.CertificateAuthorityId)
		switch {
		case err != nil:
			return err
		case ca.SigningStatus != ekstypes.CertificateAuthoritySigningStatusNotUsed:
			return errAuthoritySigns(c.Name(), *ca.Id)
		case ca.DistributionStatus != ekstypes.CertificateAuthorityDistributionStatusComplete:
			return errAuthorityDistribution(c.Name(), *ca.Id, ca.DistributionStatus)
		}
		ca.SigningStatus = ekstypes.CertificateAuthoritySigningStatusActivating
		return nil
	})
	return &awseks.ActivateCertificateAuthorityOutput{Update: update, CertificateAuthority: ca}, err
}

// DeleteCertificateAuthority makes a cluster no longer trust a certificate authority that does not sign.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DeleteCertificateAuthority.html
func (s *Service) DeleteCertificateAuthority(ctx context.Context, in *awseks.DeleteCertificateAuthorityInput) (*awseks.DeleteCertificateAuthorityOutput, error) {
	update, ca, err := s.changeAuthority(ctx, in.ClusterName, in.ClientRequestToken, record.Fingerprint(in), record.AuthorityDelete, aws.ToString(in.CertificateAuthorityId), func(c *record.Cluster) error {
		ca, err := editAuthority(c, *in.CertificateAuthorityId)
		switch {
		case err != nil:
			return err
		case ca.SigningStatus != ekstypes.CertificateAuthoritySigningStatusNotUsed:
			return errAuthoritySigns(c.Name(), *ca.Id)
		}
		ca.DistributionStatus = ekstypes.CertificateAuthorityDistributionStatusDeleting
		return nil
	})
	return &awseks.DeleteCertificateAuthorityOutput{Update: update, CertificateAuthority: ca}, err
}

// changeAuthority starts a change of a cluster's certificate authorities. edit checks it and edits the record.
func (s *Service) changeAuthority(ctx context.Context, cluster, token *string, request string, change record.AuthorityOperation, id string, edit func(*record.Cluster) error) (*ekstypes.Update, *ekstypes.CertificateAuthoritySummary, error) {
	key, rec, err := s.Cluster(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	if id == "" {
		return nil, nil, ekserr.Missing("certificateAuthorityId")
	}
	if done, err := s.RepeatedUpdate(s.Store, key, token, request); done != nil || err != nil {
		return done, nil, err
	}
	up := s.NewUpdate(ekstypes.UpdateTypeCertificateAuthorityUpdate, base.UpdateParam(ekstypes.UpdateParamTypeCertificateAuthorityId, id))
	up.Authority = &record.AuthorityChange{Operation: change, ID: id}
	up.Request, up.Token = request, aws.ToString(token)
	var summary *ekstypes.CertificateAuthoritySummary
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		now, err := record.Clusters.Get(tx, key)
		if err != nil || now.UID != rec.UID {
			return store.NotFoundAs(err, ekserr.NoCluster(key.ID))
		}
		if err := s.updatable(tx, key, now, up); err != nil {
			return err
		}
		if err := record.Clusters.Update(tx, key, func(c *record.Cluster) error {
			c.Authorities = s.authorities(*c)
			if err := edit(c); err != nil {
				return err
			}
			ca, err := editAuthority(c, id)
			summary = summarize(*ca)
			return err
		}); err != nil {
			return err
		}
		return s.begin(tx, key, up)
	})
	return &up.Update, summary, err
}

// applyAuthority makes a change of certificate authorities in the control plane.
func (s *Service) applyAuthority(ctx context.Context, plane string, change *record.AuthorityChange) error {
	ctx, cancel := context.WithTimeout(ctx, upgradeWait)
	defer cancel()
	switch change.Operation {
	case record.AuthorityCreate:
		return s.ControlPlanes.AddAuthority(ctx, plane, change.ID)
	case record.AuthorityActivate:
		return s.ControlPlanes.ActivateAuthority(ctx, plane, change.ID)
	default:
		return s.ControlPlanes.RemoveAuthority(ctx, plane, change.ID)
	}
}

// settledAuthority reports whether a control plane is as a change of its certificate authorities wants it, which it stays even
// if the update fails.
func (s *Service) settledAuthority(plane string, change *record.AuthorityChange) bool {
	found, signs := false, false
	for _, a := range s.ControlPlanes.Authorities(plane) {
		if a.ID == change.ID {
			found, signs = true, a.Signs
		}
	}
	switch change.Operation {
	case record.AuthorityCreate:
		return found
	case record.AuthorityActivate:
		return signs
	default:
		return !found
	}
}

// commitAuthority records the end of a change of certificate authorities, which may have failed.
func (s *Service) commitAuthority(c *record.Cluster, change *record.AuthorityChange, failed bool) {
	c.Authorities = slices.Clone(c.Authorities)
	ca, err := editAuthority(c, change.ID)
	if err != nil {
		return
	}
	switch {
	case failed && change.Operation == record.AuthorityCreate:
		ca.DistributionStatus = ekstypes.CertificateAuthorityDistributionStatusFailed
	case failed && change.Operation == record.AuthorityActivate:
		ca.SigningStatus = ekstypes.CertificateAuthoritySigningStatusNotUsed
	case failed, change.Operation == record.AuthorityCreate:
		ca.DistributionStatus = ekstypes.CertificateAuthorityDistributionStatusComplete
	case change.Operation == record.AuthorityDelete:
		c.Authorities = slices.DeleteFunc(c.Authorities, func(a ekstypes.CertificateAuthority) bool { return *a.Id == change.ID })
	default:
		for i := range c.Authorities {
			if a := &c.Authorities[i]; a.SigningStatus == ekstypes.CertificateAuthoritySigningStatusInUse {
				a.SigningStatus, a.RollbackAvailable = ekstypes.CertificateAuthoritySigningStatusNotUsed, new(true)
			}
		}
		ca.SigningStatus, ca.RollbackAvailable = ekstypes.CertificateAuthoritySigningStatusInUse, new(false)
		ca.ActivatedAt, ca.ActivatedBy = new(s.Now()), ekstypes.CertificateAuthorityActivatedByCustomer
		c.Cluster.CertificateAuthority.Active = &ekstypes.ActiveCertificateAuthority{Id: ca.Id, ActivatedBy: ca.ActivatedBy}
	}
}

// authorities returns what is recorded of a cluster's certificate authorities. Before the first change, that is the one
// that EKS created with the cluster.
func (s *Service) authorities(rec record.Cluster) []ekstypes.CertificateAuthority {
	if len(rec.Authorities) > 0 {
		return slices.Clone(rec.Authorities)
	}
	for _, a := range s.ControlPlanes.Authorities(rec.Plane.ID) {
		if a.Signs {
			return []ekstypes.CertificateAuthority{{
				Id: &a.ID, CreatedAt: rec.Cluster.CreatedAt, CreatedBy: ekstypes.CertificateAuthorityCreatedByEks,
				ActivatedAt: rec.Cluster.CreatedAt, ActivatedBy: ekstypes.CertificateAuthorityActivatedByEks,
				SigningStatus: ekstypes.CertificateAuthoritySigningStatusInUse, DistributionStatus: ekstypes.CertificateAuthorityDistributionStatusComplete,
				RollbackAvailable: new(false),
			}}
		}
	}
	return nil
}

// editAuthority returns a recorded certificate authority of a cluster.
func editAuthority(c *record.Cluster, id string) (*ekstypes.CertificateAuthority, error) {
	for i := range c.Authorities {
		if *c.Authorities[i].Id == id {
			return &c.Authorities[i], nil
		}
	}
	return nil, errNoAuthority(c.Name(), id)
}

func summarize(a ekstypes.CertificateAuthority) *ekstypes.CertificateAuthoritySummary {
	return &ekstypes.CertificateAuthoritySummary{
		Id: a.Id, CreatedAt: a.CreatedAt, CreatedBy: a.CreatedBy, ActivatedAt: a.ActivatedAt, ActivatedBy: a.ActivatedBy,
		SigningStatus: a.SigningStatus, DistributionStatus: a.DistributionStatus,
	}
}

// DescribeCertificateAuthority returns a certificate authority of a cluster.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeCertificateAuthority.html
func (s *Service) DescribeCertificateAuthority(ctx context.Context, in *awseks.DescribeCertificateAuthorityInput) (*awseks.DescribeCertificateAuthorityOutput, error) {
	_, rec, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	rec.Authorities = s.authorities(rec)
	ca, err := editAuthority(&rec, aws.ToString(in.CertificateAuthorityId))
	if err != nil {
		return nil, err
	}
	for _, a := range s.ControlPlanes.Authorities(rec.Plane.ID) {
		if a.ID != *ca.Id {
			continue
		}
		ca.Data = new(base64.StdEncoding.EncodeToString(a.CertPEM))
		if block, _ := pem.Decode(a.CertPEM); block != nil {
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
				ca.Validity = &ekstypes.CertificateAuthorityValidity{NotBefore: &cert.NotBefore, NotAfter: &cert.NotAfter}
			}
		}
	}
	return &awseks.DescribeCertificateAuthorityOutput{CertificateAuthority: ca}, nil
}

// ListCertificateAuthorities lists the certificate authorities of a cluster.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_ListCertificateAuthorities.html
func (s *Service) ListCertificateAuthorities(ctx context.Context, in *awseks.ListCertificateAuthoritiesInput) (*awseks.ListCertificateAuthoritiesOutput, error) {
	_, rec, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	out := &awseks.ListCertificateAuthoritiesOutput{CertificateAuthorities: []ekstypes.CertificateAuthoritySummary{}}
	for _, a := range s.authorities(rec) {
		out.CertificateAuthorities = append(out.CertificateAuthorities, *summarize(a))
	}
	out.CertificateAuthorities, out.NextToken, err = base.Page(out.CertificateAuthorities, func(a ekstypes.CertificateAuthoritySummary) string { return *a.Id }, in.MaxResults, in.NextToken)
	return out, err
}

// The texts are from memory of the API reference.
func errNoAuthority(cluster, id string) error {
	return ekserr.NotFound("No certificate authority found for ID: %s in cluster %s.", id, cluster)
}

func errAuthorities(cluster string) error {
	return ekserr.InvalidRequest(cluster, "Cluster %s already has two certificate authorities. Delete the one that is not in use first.", cluster)
}

func errAuthoritySigns(cluster, id string) error {
	return ekserr.InvalidRequest(cluster, "Certificate authority %s is currently signing certificates for the cluster.", id)
}

func errAuthorityDistribution(cluster, id string, status ekstypes.CertificateAuthorityDistributionStatus) error {
	return ekserr.InvalidRequest(cluster, "Certificate authority %s cannot be activated: its distribution status is %s, not COMPLETE.", id, status)
}
