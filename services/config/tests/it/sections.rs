//! `audit`, `optimizer`, `telemetry` and `sessionStorage`.

use vmcp_config::{
    Audit, HostPort, SessionRedis, SessionStorage, Telemetry,
    audit::EventType,
    redis::{RedisAddress, RedisConnection},
};

use crate::support::{assert_error, file};

#[test]
fn audit_is_disabled_by_default() {
    let Audit {
        enabled,
        component,
        detect_application_errors,
        event_types,
        exclude_event_types,
        include_request_data,
        include_response_data,
        log_file,
        max_data_size,
    } = file("").audit;
    assert!(
        !enabled && detect_application_errors && !include_request_data && !include_response_data
    );
    assert_eq!((component, log_file, max_data_size), (None, None, 1024));
    assert!(event_types.is_empty() && exclude_event_types.is_empty());
}

#[test]
fn treats_empty_component_and_log_file_as_absent() {
    let audit = file("audit: {component: '', logFile: ''}\n").audit;
    assert_eq!((audit.component, audit.log_file), (None, None));
}

#[test]
fn audit_events_have_known_names() {
    let audit = file(
        "audit: {eventTypes: [mcp_tool_call, sse_connection], excludeEventTypes: [mcp_ping]}\n",
    )
    .audit;
    assert_eq!(audit.event_types, [EventType::McpToolCall, EventType::SseConnection]);
    assert_eq!(audit.exclude_event_types, [EventType::McpPing]);
    assert_error(
        "audit: {eventTypes: [mcp_tool_calls]}\n",
        "audit.eventTypes[0]",
        "did you mean mcp_tool_call?",
    );
    assert_error("audit: {maxDataSize: 0}\n", "audit.maxDataSize", "an integer from 1");
}

#[test]
fn optimizer_defaults_match_reference() {
    assert_eq!(file("").optimizer, None);
    let optimizer = file("optimizer: {}\n").optimizer.unwrap();
    assert_eq!(optimizer.embedding_service, None);
    assert_eq!(optimizer.embedding_service_api_key_env, None);
    assert_eq!(optimizer.embedding_service_model, None);
    assert_eq!(optimizer.embedding_service_timeout.to_string(), "30s");
    assert_eq!(optimizer.hybrid_search_semantic_ratio.to_string(), "0.5");
    assert_eq!(optimizer.semantic_distance_threshold.to_string(), "1.0");
    assert_eq!(optimizer.tools(), 8);
}

#[test]
fn search_returns_one_to_fifty_tools() {
    for (text, tools) in [("0", 8), ("1", 1), ("50", 50)] {
        assert_eq!(
            file(&format!("optimizer: {{maxToolsToReturn: {text}}}\n")).optimizer.unwrap().tools(),
            tools
        );
    }
    assert_error(
        "optimizer: {maxToolsToReturn: 51}\n",
        "optimizer.maxToolsToReturn",
        "from 0 to 50",
    );
}

#[test]
fn ratio_and_threshold_are_quoted_decimals_in_range() {
    file("optimizer: {hybridSearchSemanticRatio: '1.0', semanticDistanceThreshold: '2'}\n");
    assert_error(
        "optimizer: {hybridSearchSemanticRatio: '1.01'}\n",
        "optimizer.hybridSearchSemanticRatio",
        "from 0 to 1",
    );
    assert_error(
        "optimizer: {semanticDistanceThreshold: '2.1'}\n",
        "optimizer.semanticDistanceThreshold",
        "from 0 to 2",
    );
    assert_error(
        "optimizer: {hybridSearchSemanticRatio: half}\n",
        "optimizer.hybridSearchSemanticRatio",
        "a decimal number",
    );
    assert_error(
        "optimizer: {hybridSearchSemanticRatio: 0.5}\n",
        "optimizer.hybridSearchSemanticRatio",
        "did you mean \"0.5\"?",
    );
}

#[test]
fn embedding_service_has_url_and_timeout() {
    assert_error(
        "optimizer: {embeddingService: 'tei:80'}\n",
        "optimizer.embeddingService",
        "an absolute http",
    );
    assert_error(
        "optimizer: {embeddingServiceTimeout: 0s}\n",
        "optimizer.embeddingServiceTimeout",
        "a duration of more than 0s",
    );
    let empty = file("optimizer: {embeddingServiceModel: ''}\n").optimizer.unwrap();
    assert_eq!(empty.embedding_service_model, None, "empty is absent");
}

#[test]
fn telemetry_has_the_defaults_of_the_reference() {
    let telemetry = file("telemetry: {}\n").telemetry.unwrap();
    assert_eq!(telemetry, Telemetry::default());
    assert_eq!(telemetry.sampling_rate.to_string(), "0.05");
    assert!(telemetry.use_legacy_attributes);
    assert!(
        !telemetry.tracing_enabled
            && !telemetry.metrics_enabled
            && !telemetry.enable_prometheus_metrics_path
    );
}

#[test]
fn sampling_rate_is_quoted_decimal_up_to_one() {
    file("telemetry: {samplingRate: '1.0'}\n");
    assert_error("telemetry: {samplingRate: '1.5'}\n", "telemetry.samplingRate", "from 0 to 1");
    assert_error(
        "telemetry: {samplingRate: 0.05}\n",
        "telemetry.samplingRate",
        "did you mean \"0.05\"?",
    );
    assert_error("telemetry: {samplingRate: '-1'}\n", "telemetry.samplingRate", "a decimal number");
}

#[test]
fn rejects_telemetry_endpoint_without_signals() {
    assert_error(
        "telemetry: {endpoint: 'otel:4318'}\n",
        "telemetry.endpoint",
        "only with tracingEnabled or metricsEnabled",
    );
    file("telemetry: {endpoint: 'otel:4318', tracingEnabled: true}\n");
    file("telemetry: {endpoint: 'otel:4318', metricsEnabled: true}\n");
    assert_error(
        "telemetry: {insecure: true, caCertPath: /ca.pem}\n",
        "telemetry.caCertPath",
        "only without insecure",
    );
}

#[test]
fn telemetry_headers_and_variables_have_legal_names() {
    assert_error("telemetry: {headers: {'a b': c}}\n", "telemetry.headers[\"a b\"]", "RFC 9110");
    assert_error(
        "telemetry: {environmentVariables: [a-b]}\n",
        "telemetry.environmentVariables[0]",
        "the name of an environment",
    );
}

#[test]
fn sessions_are_in_memory_by_default() {
    assert_eq!(file("").session_storage, SessionStorage::Memory);
    assert_eq!(
        file("sessionStorage: {provider: memory}\n").session_storage,
        SessionStorage::Memory
    );
    let redis = redis("address: 'redis:6379'");
    assert_eq!((redis.db, &redis.key_prefix), (0, &None));
    let RedisConnection { address, dial_timeout, read_timeout, write_timeout, tls } =
        redis.connection;
    assert_eq!(address, RedisAddress::Standalone(HostPort::new("redis:6379").unwrap()));
    let timeouts = [dial_timeout, read_timeout, write_timeout].map(|it| it.to_string());
    assert_eq!((timeouts.join(" "), tls), ("5s 3s 3s".to_owned(), None));
    assert_error("sessionStorage: {}\n", "sessionStorage.provider", "required");
    for nothing in ["", ", address: ''"] {
        assert_error(
            &format!("sessionStorage: {{provider: redis{nothing}}}\n"),
            "sessionStorage",
            "neither address nor sentinelConfig",
        );
    }
    assert_error(
        "sessionStorage: {provider: redis, address: a, db: -1}\n",
        "sessionStorage.db",
        "an integer",
    );
    assert_error(
        "sessionStorage: {provider: memory, db: 1}\n",
        "sessionStorage.db",
        "db only with provider: redis",
    );
    assert_error(
        "sessionStorage: {provider: redis, address: a, passwordRef: {}}\n",
        "sessionStorage.passwordRef",
        "an unknown key",
    );
}

fn redis(fields: &str) -> SessionRedis {
    let file = file(&format!("sessionStorage: {{provider: redis, {fields}}}\n"));
    match file.session_storage {
        SessionStorage::Redis(redis) => *redis,
        SessionStorage::Memory => panic!("{fields}"),
    }
}

#[test]
fn session_redis_is_server_cluster_or_sentinel() {
    for (fields, port) in [("address: r", "r:6379"), ("address: 'r:1', db: 3", "r:1")] {
        let expected = RedisAddress::Standalone(HostPort::new(port).unwrap());
        assert_eq!(redis(fields).connection.address, expected);
    }
    let cluster = redis("address: '[::1]:7000', clusterMode: true, db: 0, readTimeout: 1s");
    assert!(matches!(cluster.connection.address, RedisAddress::Cluster(_)));
    let sentinel = "sentinelConfig: {masterName: m, db: 2, sentinelAddrs: ['s:26379']}";
    let all = redis(&format!("{sentinel}, sentinelTls: {{}}, tls: {{}}, keyPrefix: 'a:'"));
    let RedisAddress::Sentinel { config, tls: Some(_) } = &all.connection.address else { panic!() };
    assert_eq!((config.db, all.key_prefix.as_deref()), (2, Some("a:")));
    let refused = |fields: &str, path: &str, what| {
        let text = format!("sessionStorage: {{provider: redis, {fields}}}\n");
        assert_error(&text, &format!("sessionStorage{path}"), what);
    };
    refused(&format!("address: r, {sentinel}"), ".sentinelConfig", "only one of");
    refused(&format!("db: 1, {sentinel}"), ".db", "sentinelConfig.db");
    refused(&format!("clusterMode: true, {sentinel}"), ".clusterMode", "together with address");
    refused("address: r, sentinelTls: {}", ".sentinelTls", "only together with sentinelConfig");
    refused("address: r, clusterMode: true, db: 1", ".db", "a cluster has no other database");
    refused("address: 'r:x'", ".address", "host:port");
    refused("address: 'r', keyPrefix: 'a{b}'", ".keyPrefix", "without { and }");
    refused("address: 'r', dialTimeout: 0s", ".dialTimeout", "more than 0s");
    assert_error(
        "sessionStorage: {provider: memory, tls: {}}\n",
        "sessionStorage.tls",
        "only with provider: redis",
    );
}
