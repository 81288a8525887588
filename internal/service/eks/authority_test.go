package eks_test

import (
	"math/rand/v2"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// TestCertificateAuthorityRotation: create, activate, roll back, activate again and delete the old one, with failures of
// the control plane in between.
func TestCertificateAuthorityRotation(t *testing.T) {
	w := newWorld(t)
	ctx, dev := t.Context(), aws.String("dev")
	c := w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.faults.mu.Lock()
	w.faults.rand, w.faults.left, w.faults.rate = rand.New(rand.NewPCG(1, 2)), 6, 0.5
	w.faults.mu.Unlock()

	list, err := w.client.ListCertificateAuthorities(ctx, &awseks.ListCertificateAuthoritiesInput{ClusterName: dev})
	if err != nil || len(list.CertificateAuthorities) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	first := list.CertificateAuthorities[0]
	if first.SigningStatus != ekstypes.CertificateAuthoritySigningStatusInUse || first.CreatedBy != ekstypes.CertificateAuthorityCreatedByEks || *c.CertificateAuthority.Active.Id != *first.Id {
		t.Errorf("first authority %+v, active %+v", first, c.CertificateAuthority.Active)
	}
	made, err := w.client.CreateCertificateAuthority(ctx, &awseks.CreateCertificateAuthorityInput{ClusterName: dev})
	if err != nil {
		t.Fatal(err)
	}
	second := made.CertificateAuthority.Id
	if made.Update.Type != ekstypes.UpdateTypeCertificateAuthorityUpdate || *made.Update.Params[0].Value != *second ||
		made.CertificateAuthority.DistributionStatus != ekstypes.CertificateAuthorityDistributionStatusInProgress {
		t.Errorf("%+v %+v", made.Update, made.CertificateAuthority)
	}
	settled := func(up *ekstypes.Update) {
		t.Helper()
		w.waitCluster("dev", ekstypes.ClusterStatusActive)
		out, err := w.client.DescribeUpdate(ctx, &awseks.DescribeUpdateInput{Name: dev, UpdateId: up.Id})
		if err != nil || out.Update.Status != ekstypes.UpdateStatusSuccessful {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	settled(made.Update)
	_, err = w.client.CreateCertificateAuthority(ctx, &awseks.CreateCertificateAuthorityInput{ClusterName: dev})
	wantError(t, err, "InvalidRequestException", "Cluster dev already has two certificate authorities. Delete the one that is not in use first.")
	_, err = w.client.DeleteCertificateAuthority(ctx, &awseks.DeleteCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: first.Id})
	wantError(t, err, "InvalidRequestException", "Certificate authority "+*first.Id+" is currently signing certificates for the cluster.")
	_, err = w.client.ActivateCertificateAuthority(ctx, &awseks.ActivateCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: aws.String("ca-none")})
	wantError(t, err, "ResourceNotFoundException", "No certificate authority found for ID: ca-none in cluster dev.")

	for _, id := range []*string{second, first.Id, second} {
		out, err := w.client.ActivateCertificateAuthority(ctx, &awseks.ActivateCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: id})
		if err != nil || out.CertificateAuthority.SigningStatus != ekstypes.CertificateAuthoritySigningStatusActivating {
			t.Fatalf("%+v, %v", out, err)
		}
		settled(out.Update)
		got, err := w.client.DescribeCertificateAuthority(ctx, &awseks.DescribeCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: id})
		if err != nil || got.CertificateAuthority.SigningStatus != ekstypes.CertificateAuthoritySigningStatusInUse {
			t.Errorf("%+v, %v", got, err)
		}
	}
	old, err := w.client.DescribeCertificateAuthority(ctx, &awseks.DescribeCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: first.Id})
	if err != nil || !*old.CertificateAuthority.RollbackAvailable || old.CertificateAuthority.SigningStatus != ekstypes.CertificateAuthoritySigningStatusNotUsed {
		t.Errorf("%+v, %v", old, err)
	}
	gone, err := w.client.DeleteCertificateAuthority(ctx, &awseks.DeleteCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: first.Id})
	if err != nil || gone.CertificateAuthority.DistributionStatus != ekstypes.CertificateAuthorityDistributionStatusDeleting {
		t.Fatalf("%+v, %v", gone, err)
	}
	settled(gone.Update)
	list, err = w.client.ListCertificateAuthorities(ctx, &awseks.ListCertificateAuthoritiesInput{ClusterName: dev})
	if err != nil || len(list.CertificateAuthorities) != 1 || *list.CertificateAuthorities[0].Id != *second {
		t.Errorf("%+v, %v", list, err)
	}
	if c := w.waitCluster("dev", ekstypes.ClusterStatusActive); *c.CertificateAuthority.Active.Id != *second || c.CertificateAuthority.Active.ActivatedBy != ekstypes.CertificateAuthorityActivatedByCustomer {
		t.Errorf("%+v", c.CertificateAuthority.Active)
	}
}
