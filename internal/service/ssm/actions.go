package ssm

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // the API's checksum
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
	"github.com/drydock-dev/drydock/internal/service/ssm/gather"
)

// Inventory is the part of Systems Manager that agents call to store what they have gathered.
type Inventory interface {
	PutInventory(context.Context, *awsssm.PutInventoryInput) (*awsssm.PutInventoryOutput, error)
}

// perform runs a step on a machine, and returns its exit status. As with machine.Run, the error says why it did not finish.
func (s *Service) perform(ctx context.Context, sc scope, c *commandRecord, m machine.Machine, what *document.Script, stdout, stderr io.Writer) (int, error) {
	action := s.updateAgent
	switch what.Action {
	case document.RunShellScript:
		return machine.Run(ctx, m, machine.Command{Args: []string{"sh", "-c", what.Text}, Dir: what.Dir, Stdout: stdout, Stderr: stderr})
	case document.SoftwareInventory:
		action = s.gather
	}
	text, err := action(ctx, sc, c, m, what.Inputs)
	_, _ = io.WriteString(stdout, text) // a head accepts everything
	if err == nil {
		return 0, nil
	}
	if ctx.Err() != nil {
		return 1, ctx.Err()
	}
	_, _ = io.WriteString(stderr, err.Error())
	return 1, nil
}

// gather does what the agent does for the action aws:softwareInventory, with its messages. Only associations run it.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/plugins/inventory/inventory.go
func (s *Service) gather(ctx context.Context, sc scope, c *commandRecord, m machine.Machine, inputs map[string]string) (string, error) {
	in := m.Instance()
	if c.Run == nil {
		return "", fmt.Errorf("%s plugin can only be invoked via ssm-associate", document.SoftwareInventory)
	}
	if other := s.otherInventory(sc, c.Run.Association, &in); other != "" {
		return "", fmt.Errorf("%s detected multiple inventory configurations associated with one instance. Each instance can be associated with just one inventory configuration. Conflicting inventory configuration IDs: %s and %s", document.SoftwareInventory, c.Run.Association, other)
	}
	found, err := gather.Collect(ctx, m, inputs, s.now)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "Inventory policy has been successfully applied but there is no inventory data to upload to SSM", nil
	}
	put := &awsssm.PutInventoryInput{InstanceId: &in.ID}
	for _, i := range found {
		b, err := json.Marshal(i.Content)
		if err != nil {
			return "", err
		}
		sum := md5.Sum(b) //nolint:gosec // as above
		put.Items = append(put.Items, ssmtypes.InventoryItem{
			TypeName: aws.String(i.Type), SchemaVersion: aws.String(i.Schema), CaptureTime: aws.String(i.Captured.Format(time.RFC3339)), ContentHash: aws.String(base64.StdEncoding.EncodeToString(sum[:])), Content: i.Content,
		})
	}
	as, err := s.fleet.As(ctx, in.ID, "ssm")
	if err == nil {
		_, err = s.inventory.PutInventory(as, put)
	}
	if err != nil {
		return "", fmt.Errorf("inventory data could not be uploaded to Systems Manager. Additional troubleshooting information - %s", errorText(err))
	}
	return "Inventory policy has been successfully applied and collected inventory data has been uploaded to SSM", nil
}

// otherInventory returns the ID of another association that gathers the inventory of an instance, or "".
func (s *Service) otherInventory(sc scope, id string, in *machine.Instance) string {
	for _, i := range associations.All(s.store, sc.All()) {
		a := &i.Value
		if a.ID == id || !s.matchesAssociation(&a.associationVersion, in) {
			continue
		}
		d, err := s.document(sc, a.Document, a.DocumentVersion, "")
		if err == nil && slices.ContainsFunc(d.Steps, func(st document.Step) bool { return st.Action == document.SoftwareInventory }) {
			return a.ID
		}
	}
	return ""
}

// updateAgent does what the agent does for the action aws:updateSsmAgent, with its messages.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/plugins/updatessmagent/updateagent.go
func (s *Service) updateAgent(ctx context.Context, _ scope, _ *commandRecord, m machine.Machine, inputs map[string]string) (string, error) {
	in, agent := m.Instance(), cmp.Or(inputs["agentName"], "amazon-ssm-agent")
	now, version := s.fleet.AgentVersion(in.ID), cmp.Or(inputs["targetVersion"], latestAgent)
	text := fmt.Sprintf("Updating %s from %s to %s\n", agent, now, cmp.Or(inputs["targetVersion"], "latest"))
	if _, err := s.fleet.As(ctx, in.ID, "s3"); err != nil {
		return text, fmt.Errorf("failed to download manifest: %w", err)
	}
	text += "Successfully downloaded " + strings.ReplaceAll(inputs["source"], "{Region}", in.Region) + "\n"
	switch {
	case version == now:
		return text + agent + " " + now + " has already been installed, update skipped\n", nil
	case images.OlderVersion(version, now) && inputs["allowDowngrade"] != "true":
		return text, fmt.Errorf("updating %s to an older version, please enable allow downgrade to proceed", agent)
	}
	unsupported := fmt.Errorf("%s version %s is unsupported", agent, version)
	if strings.Trim(version, "0123456789.") != "" {
		return text, unsupported
	}
	arch := "amd64"
	if in.Image.Architecture == "arm64" {
		arch = "arm64"
	}
	url := "https://s3." + in.Region + ".amazonaws.com/amazon-ssm-" + in.Region + "/" + version + "/linux_" + arch + "/amazon-ssm-agent.rpm"
	if _, err := machine.Run(ctx, m, machine.Command{Args: []string{"rpm", "-U", "--oldpackage", url}, Stdout: io.Discard, Stderr: io.Discard}); err != nil {
		return text, err
	}
	if s.fleet.AgentVersion(in.ID) != version {
		return text, unsupported
	}
	return text + "Initiating " + agent + " update to " + version + "\n" + agent + " updated successfully to " + version + "\n", nil
}
