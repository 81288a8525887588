package ssm

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
)

// A plan is what a session does according to its document and parameters.
type plan struct {
	document    string
	kind        string // of session
	preferences document.Preferences
	program     document.Program    // of a session with commands
	port        document.Forwarding // of a port session
	user        string              // that the session runs as according to preferences; empty means ssm-user
}

// runsAs returns the user that the session runs as.
func (p *plan) runsAs() string {
	if p.program.Elevated {
		return "root"
	}
	return cmp.Or(p.user, ssmUser)
}

// sessionDocument returns the document of a session. If the account has no preferences of its own, AWS's apply.
func (s *Service) sessionDocument(sc scope, name string) (*foundDocument, error) {
	name = cmp.Or(name, document.Shell)
	d, err := s.document(sc, name, "", "")
	if name == document.Shell && awserr.CodeOf(err) == "InvalidDocument" {
		p, _ := document.ByName(document.Shell)
		return &foundDocument{Document: p.Document, name: p.Name, rec: documentRecord{Type: p.Type}}, nil
	}
	if err == nil && d.rec.Type != document.Session {
		err = &ssmtypes.InvalidDocument{Message: aws.String("Document type " + d.rec.Type + " is not supported for sessions.")}
	}
	return d, err
}

func (s *Service) planOf(ctx context.Context, sc scope, name string, given map[string][]string) (plan, error) {
	d, err := s.sessionDocument(sc, name)
	if err != nil {
		return plan{}, err
	}
	p := plan{document: d.name, kind: d.SessionType}
	values, err := s.values(ctx, sc, d.Document, given)
	if err != nil {
		return p, err
	}
	switch p.kind {
	case document.Port:
		p.port, err = d.Forwarding(values)
	case document.InteractiveCommands, document.NonInteractiveCommands:
		if p.program, err = d.Program(values); err == nil && p.program.Commands == "" {
			err = errValidation("Document %s has no commands for Linux.", d.name)
		}
	}
	if err == nil {
		p.preferences, err = d.Preferences(values)
	}
	if err != nil {
		return p, errDocument(err)
	}
	if len(d.Inputs) == 0 && d.name != document.Shell { // the account's preferences apply
		shell, err := s.sessionDocument(sc, "")
		if err != nil {
			return p, err
		}
		p.preferences, err = shell.Preferences(nil)
		if err != nil {
			return p, errDocument(err)
		}
		p.preferences.ShellProfile.Linux = "" // applies only to sessions of document.Shell
	}
	return p, nil
}
