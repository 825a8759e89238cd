package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"

	"github.com/readroute/readroute/internal/dbtest"
)

// suiteDatabase is the database that the suite gets, made anew for every run.
const suiteDatabase = "pgx_test"

// servers are the private primary and standby that the suite runs against.
type servers struct {
	cluster          *dbtest.PostgresCluster
	primary, replica string // connection URLs of suiteDatabase
}

func startServers(ctx context.Context) (*servers, error) {
	cluster, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: 1})
	if err != nil {
		return nil, err
	}
	s := &servers{cluster: cluster}
	if s.primary, err = withDatabase(cluster.Primary().DSN(), suiteDatabase); err == nil {
		s.replica, err = withDatabase(cluster.Standby(0).DSN(), suiteDatabase)
	}
	if err != nil {
		return nil, fmt.Errorf("connection URL: %w", err)
	}
	return s, nil
}

func withDatabase(dsn, name string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

func (s *servers) Close() error { return s.cluster.Close() }

// reset gives the next run an empty database, on the standby as well.
func (s *servers) reset(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.cluster.Primary().DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + suiteDatabase + " WITH (FORCE)",
		"CREATE DATABASE " + suiteDatabase,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("reset the database of the suite: %w", err)
		}
	}
	return s.cluster.WaitCaughtUp(ctx)
}
