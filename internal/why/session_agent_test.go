package why

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
)

// An instance that is launched again has the agent only if user data does not remove it, and is a script of a shell that can install it.
func TestKeepingAgent(t *testing.T) {
	for _, tt := range []struct {
		has            bool
		userData       string
		edited, sketch bool
	}{
		{true, "", false, false},
		{true, "#!/bin/sh\necho\n", false, false},
		{true, "#!/bin/sh\nyum remove -y amazon-ssm-agent\n", false, true},
		{true, "#!/usr/bin/python3\nprint()\n", false, false},
		{false, "", true, false},
		{false, "#!/bin/sh\necho\n", true, false},
		{false, "#!/bin/bash -xe\necho\n", true, false},
		{false, "#! /usr/bin/env bash\r\necho\n", true, false},
		{false, "#!/bin/python3\nprint()\n", false, true},
		{false, "#!/usr/bin/env python3\nprint()\n", false, true},
		{false, "#!/bin/shell\n", false, true},
		{false, "#cloud-config\nruncmd: [date]\n", false, true},
		{false, "#!/bin/bash\nsystemctl mask amazon-ssm-agent\n", false, true},
		{true, zipped("#!/bin/bash\nyum remove -y amazon-ssm-agent\n"), false, true},
		{true, zipped("#!/bin/bash\ntrue\n"), false, false},
		{false, zipped("#!/bin/bash\ntrue\n"), false, true},
		{true, zipped("#!/bin/bash\nyum remove -y amazon-ssm-agent\n")[:20], false, false},
	} {
		edit, sketch := keepingAgent(tt.has, []byte(tt.userData))
		if (edit != "") != tt.edited || (sketch != "") != tt.sketch {
			t.Errorf("%v, %q: edit %q, sketch %q", tt.has, tt.userData, edit, sketch)
		}
	}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// The login of a twin is that of its source.
func TestLogin(t *testing.T) {
	for _, tt := range []struct {
		account, public string
		twin            bool
		want            string
	}{
		{awsapi.DefaultAccount, "54.1.2.3", false, "drydock ssh --region eu-west-1 ec2-user@i-1 -i "},
		{"111122223333", "", false, "drydock ssh --region eu-west-1 --account 111122223333 ec2-user@i-1 -i "},
		{"111122223333", "54.1.2.3", true, "@54.1.2.3"},
		{"111122223333", "", true, "@10.0.0.7"},
	} {
		c := sessionChain{x: New(Config{IsTwin: func(string) bool { return tt.twin }}), SessionExplanation: api.SessionExplanation{Account: tt.account, Region: "eu-west-1", Instance: "i-1"}}
		c.in = machine.Instance{PrivateIP: netip.MustParseAddr("10.0.0.7")}
		if tt.public != "" {
			c.in.PublicIP = netip.MustParseAddr(tt.public)
		}
		if got := c.login(); !strings.Contains(got, tt.want) || strings.HasPrefix(got, `ssh -i "$KEY" `) != tt.twin {
			t.Error(got)
		}
	}
}

// A Bottlerocket instance that runs containers has no session, and the explanation says which instances have one.
func TestBottlerocketWithoutSessions(t *testing.T) {
	for _, what := range []string{"SSM Agent", "sshd"} {
		text, note := noSession(images.Bottlerocket, what, false)
		if text != "in Drydock, Bottlerocket instances that run containers have no sessions, neither by Session Manager nor by SSH" || !strings.Contains(note, "drydock:runtime=simulated") {
			t.Errorf("%s: %s; %s", what, text, note)
		}
	}
	if text, note := noSession(images.Bottlerocket, "sshd", true); text != "Drydock runs no sshd for this image" || !strings.Contains(note, "control container") {
		t.Errorf("a simulated one: %s; %s", text, note)
	}
}
