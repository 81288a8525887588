package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// leaf is a certificate in a file of a plane's folder.
type leaf struct {
	path    string
	from    authority
	request request
}

func leaves(rec record, sec secrets, webhooks authority, dir launch.Files, listenAddress string) []leaf {
	client := func(path, name string, groups ...string) leaf {
		return leaf{path, sec.CA, request{commonName: name, organizations: groups, validity: certValidity}}
	}
	return []leaf{
		{dir.Serving(), sec.CA, request{commonName: "kube-apiserver", hosts: rec.hosts(listenAddress), validity: certValidity}},
		{dir.FrontProxy(), sec.FrontProxy, request{commonName: "front-proxy-client", validity: certValidity}},
		// EKS names this user in its own ClusterRoleBinding eks:…; here, as with kubeadm, kubelets allow
		// system:masters.
		client(dir.KubeletClient(), "kube-apiserver-kubelet-client", "system:masters"),
		// The group avoids waiting for the built-in roles of a new cluster: requests that are denied in the meantime
		// are only retried after seconds.
		client(dir.ControllerManager(), "system:kube-controller-manager", "system:masters"),
		client(dir.Scheduler(), "system:kube-scheduler", "system:masters"),
		// Its name tells the daemon which plane is calling.
		{dir.WebhookClient(), webhooks, request{commonName: rec.ID, validity: certValidity}},
	}
}

// renewLeaves writes the certificates: all of them, or only those that expire soon. The child's servers and clients
// notice changed files by themselves.
func renewLeaves(all []leaf, onlyExpiring bool, now time.Time) error {
	for _, l := range all {
		if onlyExpiring {
			if old, err := os.ReadFile(l.path); err == nil && !expiresSoon(old, now) {
				continue
			}
		}
		b, err := l.from.issue(l.request, now)
		if err != nil {
			return fmt.Errorf("certificate of %s: %w", l.request.commonName, err)
		}
		if err := writeFile(l.path, b); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes the files that a child reads from its folder when it starts.
func writeFiles(rec record, sec secrets, dir launch.Files, webhooks authority, webhookURL, egressSocket, listenAddress string, now time.Time) error {
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return err
	}
	if err := renewLeaves(leaves(rec, sec, webhooks, dir, listenAddress), false, now); err != nil {
		return err
	}
	identity, err := json.Marshal(podIdentityWebhook(webhookURL, webhooks.CertPEM))
	if err != nil {
		return err
	}
	fargate, err := json.Marshal(fargateWebhook(webhookURL, webhooks.CertPEM))
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(dir.CA(), sec.bundle()),
		writeFile(dir.CAKey(), sec.CA.KeyPEM),
		writeFile(dir.FrontProxyCA(), sec.FrontProxy.CertPEM),
		writeFile(dir.ServiceAccountKey(), sec.SigningKey),
		writeFile(dir.WebhookCA(), webhooks.CertPEM),
		writeFile(dir.TokenWebhook(), webhookKubeconfig(dir, webhookURL+authenticatePath)),
		writeFile(dir.AuthorizationWebhook(), webhookKubeconfig(dir, webhookURL+authorizePath)),
		writeFile(dir.Authorization(), fmt.Appendf(nil, authorizationConfig, dir.AuthorizationWebhook())),
		writeFile(dir.Admission(), fmt.Appendf(nil, admissionConfig, dir.AdmissionWebhook())),
		writeFile(dir.AdmissionWebhook(), admissionKubeconfig(dir, webhookURL)),
		writeFile(dir.PodIdentityWebhook(), identity),
		writeFile(dir.FargateWebhook(), fargate),
		writeFile(dir.Egress(), fmt.Appendf(nil, egressConfig, egressSocket)),
	)
}

// writeFile replaces a file atomically. It does not touch the file if the content is the same.
func writeFile(path string, b []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // CreateTemp sets mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func webhookKubeconfig(dir launch.Files, url string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: drydock
  cluster: {server: %q, certificate-authority: %q}
users:
- name: plane
  user: {client-certificate: %q, client-key: %q}
contexts:
- name: drydock
  context: {cluster: drydock, user: plane}
current-context: drydock
`, url, dir.WebhookCA(), dir.WebhookClient(), dir.WebhookClient())
}

// The webhook evaluates EKS access policies. Only principals that the authenticator has let in have such a UID: people,
// roles, and nodes; only those of EKS Auto Mode have access policies.
// https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
const authorizationConfig = `apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthorizationConfiguration
authorizers:
- type: Node
  name: node
- type: RBAC
  name: rbac
- type: Webhook
  name: eks-access-policies
  webhook:
    authorizedTTL: 1s
    unauthorizedTTL: 1s
    timeout: 10s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    connectionInfo:
      type: KubeConfigFile
      kubeConfigFile: %q
    matchConditions:
    - expression: "has(request.uid) && request.uid.startsWith('aws-iam-authenticator:')"
`

// Destinations that are not named are dialled directly. Etcd must not be named, because the dialer of proxyProtocol
// Direct does not support unix sockets.
const egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: controlplane
  connection: {proxyProtocol: Direct}
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds: {udsName: %q}
`
