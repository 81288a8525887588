package iam

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// reportLife is how long a credential report is valid. No other one is generated in that time.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_getting-report.html
const reportLife = 4 * time.Hour

// reports have the latest credential report of each account.
var reports = store.NewCollection[credentialReport]("iam", "credential-report")

const reportID = "report"

// A credentialReport lists an account's users with the states of their credentials.
type credentialReport struct {
	Generated time.Time
	Content   []byte // CSV, compressed with gzip
}

// reportColumns are the columns of a report. https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_getting-report.html
var reportColumns = []string{
	"user", "arn", "user_creation_time", "password_enabled", "password_last_used", "password_last_changed", "password_next_rotation", "mfa_active",
	"access_key_1_active", "access_key_1_last_rotated", "access_key_1_last_used_date", "access_key_1_last_used_region", "access_key_1_last_used_service",
	"access_key_2_active", "access_key_2_last_rotated", "access_key_2_last_used_date", "access_key_2_last_used_region", "access_key_2_last_used_service",
	"cert_1_active", "cert_1_last_rotated", "cert_2_active", "cert_2_last_rotated",
}

const (
	notApplicable = "N/A"
	noInformation = "no_information"
	notSupported  = "not_supported"
)

// noKey and noCertificate are the columns of an access key and of a certificate that a user does not have.
var (
	noKey         = []string{"false", notApplicable, notApplicable, notApplicable, notApplicable}
	noCertificate = []string{"false", notApplicable}
)

func reportTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05+00:00") }

// GenerateCredentialReport generates a report, unless there is one that is still valid. Like AWS, it says of a new report
// that its generation has started, although here the report can be had at once.
func (s *Service) GenerateCredentialReport(ctx context.Context, _ *awsiam.GenerateCredentialReportInput) (*awsiam.GenerateCredentialReportOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	key := store.Key{Account: acct, ID: reportID}
	last, err := reports.Get(s.store, key)
	if store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err == nil && s.now().Sub(last.Generated) < reportLife {
		return &awsiam.GenerateCredentialReportOutput{State: iamtypes.ReportStateTypeComplete}, nil
	}
	if err := s.EnsureAccount(ctx, acct); err != nil {
		return nil, err
	}
	report, err := s.credentialReport(acct)
	if err != nil {
		return nil, err
	}
	if err := s.store.Update(ctx, func(tx *store.Tx) error { return reports.Put(tx, key, report) }); err != nil {
		return nil, err
	}
	// https://docs.aws.amazon.com/IAM/latest/APIReference/API_GenerateCredentialReport.html
	return &awsiam.GenerateCredentialReportOutput{State: iamtypes.ReportStateTypeStarted, Description: aws.String("No report exists. Starting a new report generation task")}, nil
}

// GetCredentialReport returns the latest report.
func (s *Service) GetCredentialReport(ctx context.Context, _ *awsiam.GetCredentialReportInput) (*awsiam.GetCredentialReportOutput, error) {
	report, err := reports.Get(s.store, store.Key{Account: awsapi.CallFrom(ctx).Account, ID: reportID})
	if err != nil {
		return nil, store.NotFoundAs(err, &iamtypes.CredentialReportNotPresentException{Message: aws.String("No report exists for the account.")}) // our own text
	}
	if s.now().Sub(report.Generated) >= reportLife {
		return nil, &iamtypes.CredentialReportExpiredException{Message: aws.String("The report has expired.")} // our own text
	}
	r, err := gzip.NewReader(bytes.NewReader(report.Content))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetCredentialReportOutput{Content: content, GeneratedTime: &report.Generated, ReportFormat: iamtypes.ReportFormatTypeTextCsv}, nil
}

// credentialReport generates a report. Its rows are the account's root and the users, sorted by name.
func (s *Service) credentialReport(acct string) (credentialReport, error) {
	owner, err := accounts.Get(s.store, store.Key{Account: acct, ID: accountID})
	if err != nil {
		return credentialReport{}, err
	}
	of := map[string][]store.Item[accessKey]{}
	for _, k := range keys.All(s.store, within(acct)) {
		of[k.Value.UserID] = append(of[k.Value.UserID], k)
	}
	withMFA := map[string]bool{}
	for _, d := range mfaDevices.All(s.store, within(acct)) {
		withMFA[d.Value.UserID] = true
	}
	root := []string{"<root_account>", rootARN(acct), reportTime(owner.Created), notSupported, noInformation, notSupported, notSupported, "false"}
	rows := [][]string{reportColumns, slices.Concat(root, noKey, noKey, noCertificate, noCertificate)}
	for _, i := range users.All(s.store, within(acct)) {
		u := &i.Value
		row := append([]string{u.Name, u.arn(acct), reportTime(u.Created)}, owner.Passwords.columns(u.Login)...)
		row = append(row, strconv.FormatBool(withMFA[u.ID]))
		slices.SortFunc(of[u.ID], func(a, b store.Item[accessKey]) int {
			return cmp.Or(a.Value.Created.Compare(b.Value.Created), cmp.Compare(a.Key.ID, b.Key.ID))
		})
		for n := range maxAccessKeys {
			if n >= len(of[u.ID]) {
				row = append(row, noKey...)
				continue
			}
			k := of[u.ID][n]
			row = append(row, strconv.FormatBool(k.Value.Active), reportTime(k.Value.Created))
			if last, ok := s.lastUse(keyUse(acct, k.Key.ID), u.ID); ok {
				row = append(row, reportTime(last.Time), last.Region, last.Service)
			} else {
				row = append(row, notApplicable, notApplicable, notApplicable)
			}
		}
		rows = append(rows, slices.Concat(row, noCertificate, noCertificate))
	}
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	if err := csv.NewWriter(compressed).WriteAll(rows); err != nil {
		return credentialReport{}, err
	}
	if err := compressed.Close(); err != nil {
		return credentialReport{}, err
	}
	return credentialReport{Generated: s.now(), Content: out.Bytes()}, nil
}

// columns returns the columns for a user's password. It is never shown as used, because Drydock has no console.
func (p *passwordPolicy) columns(l *login) []string {
	if l == nil {
		return []string{"false", notApplicable, notApplicable, notApplicable}
	}
	changed, next := l.Created, notApplicable
	if !l.Changed.IsZero() {
		changed = l.Changed
	}
	if p != nil && p.MaxAge > 0 {
		next = reportTime(changed.AddDate(0, 0, int(p.MaxAge)))
	}
	return []string{"true", noInformation, reportTime(changed), next}
}
