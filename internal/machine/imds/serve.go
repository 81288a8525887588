package imds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	tokenHeader = "X-Aws-Ec2-Metadata-Token"
	ttlHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	maxTTL      = 21600 // 6 h
)

// versions returns the API versions, oldest first.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html
func versions() []string {
	return []string{
		"1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01", "2008-09-01", "2009-04-04",
		"2011-01-01", "2011-05-01", "2012-01-12", "2014-02-25", "2014-11-05", "2015-10-20", "2016-04-19", "2016-06-30", "2016-09-02",
		"2018-03-28", "2018-08-17", "2018-09-24", "2019-10-01", "2020-10-27", "2021-01-03", "2021-03-23", "2021-07-15", "2022-09-24",
		"2024-04-11", "latest",
	}
}

// An answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   []byte
	// lost means that the answer's last packet was dropped on its way, at the hop limit. The client sees nothing at
	// all.
	lost bool
}

// page returns an error as IMDS shows it.
func page(status int) answer {
	title := fmt.Sprintf("%d - %s", status, http.StatusText(status))
	return answer{status: status, header: http.Header{"Content-Type": {"text/html"}}, body: []byte(`<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"
	"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
 <head>
  <title>` + title + `</title>
 </head>
 <body>
  <h1>` + title + `</h1>
 </body>
</html>
`)}
}

// answer answers a request that comes from an instance over the given number of network hops: 1 from the instance
// itself, 2 from a container with its own network.
func (s *Service) answer(r *http.Request, instanceID string, hops int) (answer, error) {
	ctx := r.Context()
	in, err := s.source.Instance(ctx, instanceID)
	if err != nil {
		return answer{}, err
	}
	if in.Options.Disabled {
		return page(http.StatusForbidden), nil
	}
	if r.Method == http.MethodPut {
		a := s.putToken(r, instanceID)
		a.lost = hops > max(in.Options.HopLimit, 1)
		return a, nil
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return page(http.StatusMethodNotAllowed), nil
	}
	header := http.Header{"Content-Type": {"text/plain"}, "Accept-Ranges": {"none"}, "Last-Modified": {in.LaunchTime.UTC().Format(http.TimeFormat)}}
	in.version = 1
	if token := r.Header.Get(tokenHeader); token != "" {
		in.version = 2
		now := s.clock.Now()
		ends, ok := s.tokens.check(instanceID, token, now)
		if !ok {
			return page(http.StatusUnauthorized), nil
		}
		header.Set(ttlHeader, strconv.Itoa(int(ends.Sub(now).Seconds())))
	} else if in.Options.TokensRequired {
		return page(http.StatusUnauthorized), nil
	}
	body, raw, found, err := s.get(ctx, &in, r.URL.Path)
	if err != nil {
		return answer{}, err
	}
	if !found {
		return page(http.StatusNotFound), nil
	}
	if raw {
		header.Set("Content-Type", "application/octet-stream")
	}
	return answer{status: http.StatusOK, header: header, body: body}, nil
}

// putToken issues a session token.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
func (s *Service) putToken(r *http.Request, instanceID string) answer {
	if strings.Trim(r.URL.Path, "/") != "latest/api/token" {
		return page(http.StatusMethodNotAllowed)
	}
	// The request came through a proxy, so it may not come from the instance.
	if len(r.Header.Values("X-Forwarded-For")) > 0 {
		return page(http.StatusForbidden)
	}
	ttl, err := strconv.Atoi(r.Header.Get(ttlHeader))
	if err != nil || ttl < 1 || ttl > maxTTL {
		return page(http.StatusBadRequest)
	}
	token := s.tokens.issue(instanceID, s.clock.Now().Add(time.Duration(ttl)*time.Second))
	return answer{status: http.StatusOK, header: http.Header{"Content-Type": {"text/plain"}, ttlHeader: {strconv.Itoa(ttl)}}, body: []byte(token)}
}

// get returns what is at a path. raw distinguishes user data from text.
func (s *Service) get(ctx context.Context, in *Instance, path string) (body []byte, raw, found bool, err error) {
	words := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	if len(words) == 0 {
		return []byte(strings.Join(versions(), "\n")), false, true, nil
	}
	if !slices.Contains(versions(), words[0]) {
		return nil, false, false, nil
	}
	words = words[1:]
	if len(words) == 1 && words[0] == "user-data" {
		return in.UserData, true, in.UserData != nil, nil
	}
	if len(words) == 0 {
		top := "dynamic\nmeta-data"
		if in.UserData != nil {
			top += "\nuser-data"
		}
		return []byte(top), false, true, nil
	}
	switch words[0] {
	case "meta-data":
		t := s.metadata(in)
		if len(words) > 1 && words[1] == "network" {
			interfaces, err := s.source.Interfaces(ctx, in.ID)
			if err != nil {
				return nil, false, false, err
			}
			t = tree{}
			for _, n := range interfaces {
				t.networkInterface(n)
			}
		}
		body, found, err = t.get(ctx, words[1:])
	case "dynamic":
		body, found, err = s.dynamic(in).get(ctx, words[1:])
	}
	return body, false, found, err
}

// Handler answers the requests of one instance. hops is the number of network hops that they take: 1 from the
// instance itself, 2 from a container on it. It needs no listener at 169.254.169.254, only a way for requests to get
// here.
func (s *Service) Handler(instanceID string, hops int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := s.answer(r, instanceID, hops)
		switch {
		case errors.Is(err, ErrNotRunning) || a.lost:
			// The client would get no answer and wait for its own timeout. Closing the connection has the same
			// effect, but sooner.
			panic(http.ErrAbortHandler)
		case err != nil:
			if r.Context().Err() == nil {
				s.log.Error("answering instance metadata", "instance", instanceID, "path", r.URL.Path, "err", err)
			}
			a = page(http.StatusInternalServerError)
		}
		for k, v := range a.header {
			w.Header()[k] = v
		}
		w.Header().Set("Server", "EC2ws")
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		w.WriteHeader(a.status)
		if r.Method != http.MethodHead {
			_, _ = w.Write(a.body) // the client may have disconnected
		}
	})
}

// Transport is Handler for clients in this process. Whatever host a request names, the instance's metadata service
// answers, without a network. An answer that is lost at the hop limit is a timeout, which is reported at once.
func (s *Service) Transport(instanceID string, hops int) http.RoundTripper {
	return transport{s, instanceID, hops}
}

type transport struct {
	s          *Service
	instanceID string
	hops       int
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	a, err := t.s.answer(r, t.instanceID, t.hops)
	if err != nil {
		return nil, err
	}
	if a.lost {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	a.header.Set("Server", "EC2ws")
	body := a.body
	if r.Method == http.MethodHead {
		body = nil
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header, ContentLength: int64(len(a.body)),
		Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}
