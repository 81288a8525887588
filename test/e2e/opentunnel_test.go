package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/gorilla/websocket"
)

// openTunnel stands in for `aws ec2-instance-connect open-tunnel` of AWS CLI 2, for ssh's ProxyCommand. It makes the
// same request and carries the same frames.
// https://github.com/aws/aws-cli/tree/v2/awscli/customizations/ec2instanceconnect
func openTunnel() {
	if err := runOpenTunnel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runOpenTunnel() error {
	address := flag.String("private-ip-address", "", "")
	endpoint := flag.String("instance-connect-endpoint-id", "", "")
	host := flag.String("instance-connect-endpoint-dns-name", "", "")
	port := flag.String("remote-port", "22", "")
	duration := flag.String("max-tunnel-duration", "", "")
	flag.Parse()
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	keys, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodGet, "https://"+*host+"/openTunnel", nil)
	if err != nil {
		return err
	}
	q := req.URL.Query()
	q.Set("instanceConnectEndpointId", *endpoint)
	q.Set("remotePort", *port)
	q.Set("privateIpAddress", *address)
	if *duration != "" {
		q.Set("maxTunnelDuration", *duration)
	}
	q.Set("X-Amz-Expires", "60")
	req.URL.RawQuery = q.Encode()
	empty := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, keys, req, hex.EncodeToString(empty[:]), "ec2-instance-connect", cfg.Region, time.Now())
	if err != nil {
		return err
	}
	conn, resp, err := websocket.DefaultDialer.Dial("wss"+signed[len("https"):], nil)
	if err != nil {
		if resp != nil {
			b, _ := io.ReadAll(resp.Body)
			err = fmt.Errorf("%s\n%w", b, err)
		}
		return err
	}
	defer conn.Close()
	go func() {
		b := make([]byte, 65_000)
		for {
			n, err := os.Stdin.Read(b)
			if n > 0 {
				err = errors.Join(err, conn.WriteMessage(websocket.BinaryMessage, b[:n]))
			}
			if err != nil {
				_ = conn.Close()
				return
			}
		}
	}()
	for {
		kind, b, err := conn.ReadMessage()
		switch closed := (*websocket.CloseError)(nil); {
		case websocket.IsCloseError(err, websocket.CloseNormalClosure):
			return nil
		case errors.As(err, &closed):
			return errors.New("Websocket Closure Reason: " + closed.Text)
		case err != nil:
			return nil // the input has ended
		case kind != websocket.BinaryMessage:
			return errors.New("Received invalid data from server, closing websocket connection.")
		}
		if _, err := os.Stdout.Write(b); err != nil {
			return err
		}
	}
}
