package acm

import (
	"time"

	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// certificates are stored by the last part of their ARN.
var certificates = store.NewCollection[certificateRecord]("acm", "certificate", store.Same) // version 2 has Key

const (
	pending  = string(acmtypes.CertificateStatusPendingValidation)
	issued   = string(acmtypes.CertificateStatusIssued)
	timedOut = string(acmtypes.CertificateStatusValidationTimedOut)
)

// A certificateRecord is a certificate, requested or imported.
type certificateRecord struct {
	ID       string
	Domain   string
	Names    []string // sorted; includes Domain
	Status   string
	Imported bool `json:",omitempty"`
	// Algorithm is spelled as in requests, for example RSA_2048, which is their default.
	Algorithm string
	// Logging is the preference for certificate transparency logs.
	Logging string
	Token   string `json:",omitempty"` // IdempotencyToken of the request
	Created time.Time
	Issued  time.Time `json:",omitzero"` // or imported
	// PEM is the certificate, once it is issued, and Chain has the certificates of its issuers.
	PEM   string `json:",omitempty"`
	Chain string `json:",omitempty"`
	// Key is the private key, as PEM. Certificates of earlier versions have none.
	Key  string            `json:",omitempty"`
	Tags map[string]string `json:",omitempty"`
}
