// Prometheus' own parsers and rule evaluation, without the rest of promtool, which is ten times as large: tests/src/prometheus.rs asks, this answers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
)

// How often rules are evaluated.
const interval = time.Minute

// A metric, and the labels that a query or a series has of it.
type metric struct {
	Name   string   `json:"name"`
	Labels []string `json:"labels"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	var found []metric
	var err error
	switch {
	case len(arguments) == 2 && arguments[0] == "series":
		found, err = series(arguments[1])
	case len(arguments) == 1 && arguments[0] == "selectors":
		found, err = selectors()
	case len(arguments) == 3 && arguments[0] == "firing":
		return firing(arguments[1], arguments[2])
	case len(arguments) == 3 && arguments[0] == "watch":
		return watch(arguments[1], arguments[2])
	case len(arguments) == 2 && arguments[0] == "panels":
		return panels(arguments[1])
	default:
		return fmt.Errorf("usage: prometheus series CONTENT-TYPE | selectors | firing RULES DURATION | watch RULES URL | panels URL, not %q", arguments)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// The series of a scrape on standard input, of a content type.
func series(contentType string) ([]metric, error) {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	scraped, err := textparse.New(text, contentType, nil, textparse.ParserOptions{})
	if err != nil {
		return nil, err
	}
	var found []metric
	for {
		switch entry, err := scraped.Next(); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, err
		case entry == textparse.EntrySeries:
			var of labels.Labels
			scraped.Labels(&of)
			one := metric{Name: of.Get(labels.MetricName), Labels: []string{}}
			of.Range(func(label labels.Label) {
				if label.Name != labels.MetricName {
					one.Labels = append(one.Labels, label.Name)
				}
			})
			found = append(found, one)
		}
	}
}

// The metrics of queries on standard input, one a line, with all labels by which the query selects or groups.
func selectors() ([]metric, error) {
	queries := parser.NewParser(parser.Options{})
	var found []metric
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		query, err := queries.ParseExpr(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		grouping := []string{}
		var names []metric
		parser.Inspect(query, func(node parser.Node, _ []parser.Node) error {
			switch node := node.(type) {
			case *parser.AggregateExpr:
				grouping = append(grouping, node.Grouping...)
			case *parser.VectorSelector:
				one := metric{Name: node.Name}
				for _, matcher := range node.LabelMatchers {
					if matcher.Name != labels.MetricName {
						one.Labels = append(one.Labels, matcher.Name)
					}
				}
				names = append(names, one)
			}
			return nil
		})
		for _, one := range names {
			one.Labels = append(slices.Clone(grouping), one.Labels...)
			found = append(found, one)
		}
	}
	return found, lines.Err()
}

// The names of the alerts of a file of rules that fire after this time, with the series of a `load` command of promqltest on standard input.
func firing(file, after string) error {
	load, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	until, err := time.ParseDuration(after)
	if err != nil {
		return err
	}
	loader, err := promqltest.NewLazyLoader(string(load), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return err
	}
	defer loader.Close()
	groups, err := groupsOf(file, loader.QueryEngine(), loader.Storage())
	if err != nil {
		return err
	}
	for at := time.Duration(0); at <= until; at += interval {
		now := time.Unix(0, 0).UTC().Add(at)
		var failed error
		loader.WithSamplesTill(now, func(err error) {
			failed = errors.Join(err, evaluate(loader.Context(), groups, now))
		})
		if failed != nil {
			return failed
		}
	}
	names := []string{}
	for _, alert := range alerts(groups) {
		names = append(names, alert.Labels.Get(labels.AlertName))
	}
	slices.Sort(names)
	_, err = fmt.Println(strings.Join(slices.Compact(names), " "))
	return err
}

// The rules of a file, over the series of a store.
func groupsOf(file string, engine promql.QueryEngine, store storage.Storage) ([]*rules.Group, error) {
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(engine, store),
		Appendable: store,
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     parser.NewParser(parser.Options{}),
	})
	loaded, failures := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	groups := []*rules.Group{}
	for _, group := range loaded {
		groups = append(groups, group)
	}
	return groups, errors.Join(failures...)
}

func evaluate(ctx context.Context, groups []*rules.Group, now time.Time) error {
	var failed error
	for _, group := range groups {
		group.Eval(ctx, now)
		for _, rule := range group.Rules() {
			failed = errors.Join(failed, rule.LastError())
		}
	}
	return failed
}

// The alerts that fire.
func alerts(groups []*rules.Group) []*rules.Alert {
	firing := []*rules.Alert{}
	for _, group := range groups {
		for _, rule := range group.Rules() {
			alerting, isAlerting := rule.(*rules.AlertingRule)
			if !isAlerting {
				continue
			}
			for _, alert := range alerting.ActiveAlerts() {
				if alert.State == rules.StateFiring {
					firing = append(firing, alert)
				}
			}
		}
	}
	return firing
}
