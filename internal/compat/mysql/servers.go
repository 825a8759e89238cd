package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/readroute/readroute/internal/dbtest"
)

// suiteDatabase is the database that the suite gets, made anew for every run.
const suiteDatabase = "gotest"

// A kind is MySQL or MariaDB.
type kind struct {
	name  string
	start func(context.Context, dbtest.MySQLOptions) (*dbtest.MySQLCluster, error)
	// settings are what the suite needs beside those of both.
	settings map[string]string
}

// mayBeMissing reports that not every system has such a server to install.
func (k kind) mayBeMissing() bool { return k.name == "MySQL" && os.Getenv(dbtest.MySQLEnv) == "" }

var kinds = []kind{
	{
		name: "MySQL", start: dbtest.StartMySQL,
		settings: map[string]string{
			"innodb-redo-log-capacity": "512M", // one value may take a tenth of it
		},
	},
	{
		name: "MariaDB", start: dbtest.StartMariaDB,
		settings: map[string]string{"performance-schema": "ON"},
	},
}

// maxPacket is more than the largest value of the suite. That has 32 MB, or the
// size of a packet when that is less, and does not fit into a compressed one
// then. One test opens as many connections as the server takes, all at once:
// not too many, nor too fast, for a machine that is busy.
const maxPacket = "40M"

// servers are the private primary and replica that the suite runs against.
type servers struct {
	cluster          *dbtest.MySQLCluster
	files            string // of the certificate
	name             string // of the server and its version
	primary, replica string // addresses
}

func startServers(ctx context.Context, k kind) (_ *servers, err error) {
	s := &servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.files, err = os.MkdirTemp("", "compat-mysql-tls-"); err != nil {
		return nil, err
	}
	settings := map[string]string{
		"local-infile": "ON", "max-allowed-packet": maxPacket, "max-connections": "100", "connect-timeout": "60",
	}
	if settings["ssl-cert"], settings["ssl-key"], err = makeCertificate(s.files); err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	maps.Copy(settings, k.settings)
	if s.cluster, err = k.start(ctx, dbtest.MySQLOptions{Replicas: 1, Settings: settings}); err != nil {
		return nil, err
	}
	s.name = s.cluster.Flavor() + " " + s.cluster.Version()
	s.primary, s.replica = s.cluster.Primary().Addr(), s.cluster.Replica(0).Addr()
	return s, nil
}

func (s *servers) Close() error {
	errs := []error{os.RemoveAll(s.files)}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Close())
	}
	return errors.Join(errs...)
}

// reset gives the next run an empty database, on the replica as well, and frees
// the room that the last one has taken in the logs.
func (s *servers) reset(ctx context.Context) error {
	err := s.cluster.Primary().Exec(ctx, "DROP DATABASE IF EXISTS "+suiteDatabase, "CREATE DATABASE "+suiteDatabase)
	if err != nil {
		return fmt.Errorf("reset the database of the suite: %w", err)
	}
	if err := s.cluster.WaitCaughtUp(ctx); err != nil {
		return err
	}
	for _, n := range s.cluster.Nodes() {
		if err := n.Exec(ctx, "FLUSH BINARY LOGS", "PURGE BINARY LOGS BEFORE NOW()"); err != nil {
			return fmt.Errorf("free the logs of the last run: %w", err)
		}
	}
	return nil
}

// makeCertificate makes a certificate for servers of this machine, and returns
// the names of the two files.
func makeCertificate(dir string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "compat-mysql"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	// The servers run as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: signed},
		key:  {Type: "PRIVATE KEY", Bytes: encoded},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o644); err != nil {
			return "", "", err
		}
	}
	return cert, key, nil
}
