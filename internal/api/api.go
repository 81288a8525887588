// Package api defines the requests and responses of the daemon's own paths below
// /_drydock/, and a small client for them. The CLI and test libraries use the client;
// the packages that serve the paths use the same types, so neither side imports the other.
//
// Besides types it holds only the text form of explanations. It makes no decisions.
package api

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drydock-dev/drydock/internal/atomicfile"
)

// DaemonInfo tells where a running daemon is. It is written to daemon.json in the
// data folder, readable by its owner only.
type DaemonInfo struct {
	PID     int    `json:"pid"`
	URL     string `json:"url"` // http://127.0.0.1:4566; the same port speaks https
	DataDir string `json:"dataDir"`
	CAFile  string `json:"caFile"`
	// NamedCAFile is the CA for --allow-host names, if there are any.
	NamedCAFile string    `json:"namedCaFile,omitempty"`
	Version     string    `json:"version"`
	Started     time.Time `json:"started"`
	// AccessKeyID and SecretAccessKey are the credentials `drydock env` prints:
	// test/test on loopback, generated ones elsewhere.
	AccessKeyID     string `json:"accessKeyId"`
	SecretAccessKey string `json:"secretAccessKey"`
	// Token authenticates clients (Authorization: Bearer TOKEN). It is valid until the
	// daemon exits.
	Token   string `json:"token,omitempty"`
	LogFile string `json:"logFile,omitempty"`
	// Internet says that machines that run containers may reach the real internet.
	Internet bool `json:"internet,omitempty"`
	// Notice is shown to the user at startup, if not empty.
	Notice string `json:"notice,omitempty"`
}

// Bearer precedes DaemonInfo.Token in the Authorization header, and in the
// Proxy-Authorization header of CONNECT requests.
const Bearer = "Bearer "

// InfoFile returns the file in which a running daemon records how to reach it.
func InfoFile(dataDir string) string { return filepath.Join(dataDir, "daemon.json") }

// ReadInfo reads InfoFile. The daemon it describes may have been killed since.
func ReadInfo(dataDir string) (DaemonInfo, error) {
	b, err := os.ReadFile(InfoFile(dataDir))
	if err != nil {
		return DaemonInfo{}, err
	}
	var info DaemonInfo
	if err := json.Unmarshal(b, &info); err != nil {
		return DaemonInfo{}, fmt.Errorf("%s: %w", InfoFile(dataDir), err)
	}
	return info, nil
}

// WriteInfo records a running daemon in its data folder, for its owner only.
func WriteInfo(info DaemonInfo) error {
	b, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(InfoFile(info.DataDir), append(b, '\n'), 0o600)
}

// RemoveInfo deletes the daemon's record when it exits.
func RemoveInfo(dataDir string) { os.Remove(InfoFile(dataDir)) }

// Ping is what GET /_drydock/ping answers.
type Ping struct {
	PID int `json:"pid"`
	// DataDir is empty for other machines.
	DataDir string `json:"dataDir,omitempty"`
}

// Status is what GET /_drydock/status answers.
type Status struct {
	DaemonInfo
	Uptime   string          `json:"uptime"`
	Timing   string          `json:"timing"`
	Clusters []ClusterStatus `json:"clusters"`
	// Nodes counts the instances that are on.
	Nodes int `json:"nodes"`
	// StoreKeys counts what etcd holds: AWS records and the objects of all clusters.
	StoreKeys int64 `json:"storeKeys"`
	// DataVersion grows with each collection of records and each new form of one.
	DataVersion int `json:"dataVersion"`
	// Unreadable are the records that cannot be read, which every list leaves out.
	Unreadable []UnreadableRecord `json:"unreadable,omitempty"`
	// Twins are the accounts that are copies of AWS accounts.
	Twins []TwinStatus `json:"twins,omitempty"`
}

// TwinStatus is one twin in Status.
type TwinStatus struct {
	Account string    `json:"account"`
	Region  string    `json:"region"`
	Read    time.Time `json:"read"`    // when its source was read
	Changed bool      `json:"changed"` // whether anything was changed in it since
}

// UnreadableRecord is a record in the store that cannot be read.
type UnreadableRecord struct {
	Collection string `json:"collection"`
	Key        string `json:"key"` // ACCOUNT/REGION/ID
	Reason     string `json:"reason"`
}

// ClusterStatus is one cluster in Status.
type ClusterStatus struct {
	Account      string `json:"account"`
	Region       string `json:"region"`
	Name         string `json:"name"`
	Version      string `json:"version"`
	Status       string `json:"status"`
	Endpoint     string `json:"endpoint,omitempty"`
	ControlPlane string `json:"controlPlane,omitempty"` // starting, ready, failed: …
}

// Image is one image of GET /_drydock/images.
type Image struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Kubernetes string   `json:"kubernetes,omitempty"`
	Aliases    []string `json:"aliases,omitempty"`
}

// ImageAlias is the body of POST /_drydock/images/alias.
type ImageAlias struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// FaultTargets lists what faults can be set on in an account and region. GET /_drydock/faults/targets returns it for
// shell completion.
type FaultTargets struct {
	Instances  []string `json:"instances"` // without terminated ones
	VPCs       []string `json:"vpcs"`
	Clusters   []string `json:"clusters"`
	Zones      []string `json:"zones"`
	Operations []string `json:"operations"` // ec2:RunInstances
}
