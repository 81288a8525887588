package eks_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

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

// TestFailedAuthorityChanges: after a change that fails, the record says what the control plane has.
func TestFailedAuthorityChanges(t *testing.T) {
	const (
		complete, failed = ekstypes.CertificateAuthorityDistributionStatusComplete, ekstypes.CertificateAuthorityDistributionStatusFailed
		used, unused     = ekstypes.CertificateAuthoritySigningStatusInUse, ekstypes.CertificateAuthoritySigningStatusNotUsed
	)
	for _, tt := range []struct {
		name         string
		change       string
		late         bool // it fails after the control plane has changed
		gone         bool
		distribution ekstypes.CertificateAuthorityDistributionStatus
		signing      ekstypes.CertificateAuthoritySigningStatus
	}{
		{"create", "create", false, false, failed, unused},
		{"create late", "create", true, false, complete, unused},
		{"activate", "activate", false, false, complete, unused},
		{"activate late", "activate", true, false, complete, used},
		{"delete", "delete", false, false, complete, unused},
		{"delete late", "delete", true, true, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withClock)
			ctx, dev := t.Context(), aws.String("dev")
			w.cluster("dev", ekstypes.AuthenticationModeApi)
			fail := func() {
				w.planes.mu.Lock()
				defer w.planes.mu.Unlock()
				w.planes.authorityFails = func(changed bool) error {
					if changed == tt.late {
						return errors.New("the control plane does not answer")
					}
					return nil
				}
				w.pace = time.Minute
			}
			if tt.change == "create" {
				fail()
			}
			made, err := w.client.CreateCertificateAuthority(ctx, &awseks.CreateCertificateAuthorityInput{ClusterName: dev})
			if err != nil {
				t.Fatal(err)
			}
			id, up := made.CertificateAuthority.Id, made.Update
			if tt.change != "create" {
				w.waitCluster("dev", ekstypes.ClusterStatusActive)
				fail()
			}
			switch tt.change {
			case "activate":
				out, err := w.client.ActivateCertificateAuthority(ctx, &awseks.ActivateCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: id})
				if err != nil {
					t.Fatal(err)
				}
				up = out.Update
			case "delete":
				out, err := w.client.DeleteCertificateAuthority(ctx, &awseks.DeleteCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: id})
				if err != nil {
					t.Fatal(err)
				}
				up = out.Update
			}
			w.waitCluster("dev", ekstypes.ClusterStatusActive)
			got, err := w.client.DescribeUpdate(ctx, &awseks.DescribeUpdateInput{Name: dev, UpdateId: up.Id})
			if err != nil || got.Update.Status != ekstypes.UpdateStatusFailed || !strings.Contains(*got.Update.Errors[0].ErrorMessage, "the control plane does not answer") {
				t.Errorf("update %s, %v", asJSON(got), err)
			}
			ca, err := w.client.DescribeCertificateAuthority(ctx, &awseks.DescribeCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: id})
			switch {
			case tt.gone:
				wantError(t, err, "ResourceNotFoundException", "No certificate authority found for ID: "+*id+" in cluster dev.")
			case err != nil:
				t.Error(err)
			case ca.CertificateAuthority.DistributionStatus != tt.distribution || ca.CertificateAuthority.SigningStatus != tt.signing:
				t.Errorf("authority %s", asJSON(ca.CertificateAuthority))
			}
		})
	}
}
