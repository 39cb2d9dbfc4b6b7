--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: hermitage_refuse(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hermitage_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: accounts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.accounts (
    id character varying(36) NOT NULL,
    name character varying(120) NOT NULL,
    neighbours character varying(20),
    protects text,
    id_column text,
    rows_per_unit bigint,
    disagreeing boolean DEFAULT false NOT NULL,
    epsilon_cap double precision,
    delta_cap double precision,
    frozen boolean NOT NULL,
    keyed boolean DEFAULT true NOT NULL,
    split_key bytea,
    created bigint NOT NULL
);


--
-- Name: charges; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.charges (
    account_id character varying(36) NOT NULL,
    "position" bigint NOT NULL,
    charge_id character varying(36) NOT NULL,
    run_id character varying(36) NOT NULL,
    state character varying(12) NOT NULL,
    purpose text NOT NULL,
    who character varying(120) NOT NULL,
    neighbours character varying(20) NOT NULL,
    epsilon double precision NOT NULL,
    delta double precision NOT NULL,
    mu_squared_units bigint NOT NULL,
    slack_units bigint NOT NULL,
    coordinates bigint NOT NULL,
    additive_delta_units bigint NOT NULL,
    pure_units bigint DEFAULT '0'::bigint NOT NULL,
    accountant text NOT NULL,
    certificate_id text,
    "time" bigint NOT NULL,
    previous character varying(64) NOT NULL,
    digest character varying(64) NOT NULL
);


--
-- Name: decisions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.decisions (
    account_id character varying(36) NOT NULL,
    number bigint NOT NULL,
    charges bigint NOT NULL,
    kind character varying(12) NOT NULL,
    body text NOT NULL,
    who character varying(120) NOT NULL,
    "time" bigint NOT NULL,
    previous character varying(64) NOT NULL,
    digest character varying(64) NOT NULL
);


--
-- Name: events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.events (
    id bigint NOT NULL,
    kind character varying(20) NOT NULL,
    account_id character varying(36),
    run_id character varying(36),
    table_id character varying(36),
    who character varying(120) NOT NULL,
    detail text NOT NULL,
    "time" bigint NOT NULL
);


--
-- Name: events_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: events_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.events_id_seq OWNED BY public.events.id;


--
-- Name: hermitage_commits; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hermitage_commits (
    client text NOT NULL,
    number bigint NOT NULL,
    noted timestamp with time zone NOT NULL
);


--
-- Name: releases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.releases (
    id character varying(36) NOT NULL,
    run_id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    certificate_id text NOT NULL,
    certificate_digest character varying(64) NOT NULL,
    attestations text NOT NULL,
    who character varying(120) NOT NULL,
    sealed bigint NOT NULL
);


--
-- Name: runs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.runs (
    id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    table_id character varying(36),
    test_table_id character varying(36),
    config text NOT NULL,
    device text
);


--
-- Name: store_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.store_version (
    number integer NOT NULL,
    since bigint
);


--
-- Name: tables; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tables (
    id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    name character varying(120) NOT NULL,
    kind character varying(10) NOT NULL,
    size bigint NOT NULL,
    state character varying(10) NOT NULL,
    fingerprint character varying(64) NOT NULL,
    keep_until bigint,
    form text,
    schema text,
    created bigint NOT NULL,
    deleted bigint
);


--
-- Name: work; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.work (
    id character varying(36) NOT NULL,
    kind character varying(10) NOT NULL,
    subject character varying(120) NOT NULL,
    asked text,
    owner character varying(120) NOT NULL,
    state character varying(10) NOT NULL,
    phase text NOT NULL,
    step bigint NOT NULL,
    steps bigint NOT NULL,
    losses text NOT NULL,
    message text NOT NULL,
    incident_id character varying(16),
    cancel_requested bigint,
    gpus integer NOT NULL,
    cpus integer NOT NULL,
    place bigint,
    host text,
    pid bigint,
    pid_created double precision,
    claimed boolean NOT NULL,
    attempts integer NOT NULL,
    heartbeat bigint,
    gpu text,
    created bigint NOT NULL,
    started bigint,
    finished bigint
);


--
-- Name: events id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events ALTER COLUMN id SET DEFAULT nextval('public.events_id_seq'::regclass);


--
-- Data for Name: accounts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.accounts VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 'survey', 'add_remove', 'person', NULL, 1, false, 6, 1e-05, false, true, '\xe5149f6943795696d8480c5676dd02c572432e6395a51b819c04acc730d1dadbf2549a1fa4c86578a82a47cfb0b1b872b849328c81e9a5720f9db4ba', 1795354841);
INSERT INTO public.accounts VALUES ('f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', 'visits', 'add_remove', 'patient', 'pid', NULL, false, NULL, NULL, false, true, '\x938e5dad575c7d371f769bcde694bdb92ffa692de4f79e3ce19627eab0057ee6a62314bdc4417f468246c512407d74ccba73f9c205b756ef00c5b9fd', 1795354865);
INSERT INTO public.accounts VALUES ('42465036-a28e-498f-b965-c2059f88500c', 'cells', 'one_cell', 'person', NULL, 1, false, NULL, NULL, false, true, '\xba2454983cfc857eceacfd5db2f87f9eae0058408530ac69771e108651bd5690c070540e711b3b89a554883f19adcb2fab10835a552e020ae28d256a', 1795354872);
INSERT INTO public.accounts VALUES ('5d026140-f7e7-4a0f-af1a-b86eaacab5bc', 'undescribed', NULL, NULL, NULL, NULL, false, 2, 1e-06, false, true, NULL, 1795354893);
INSERT INTO public.accounts VALUES ('753926b0-503e-4777-95a5-d57d1041a33a', 'frozen', 'add_remove', 'patient', 'pid', NULL, false, NULL, NULL, true, true, NULL, 1795354893);


--
-- Data for Name: charges; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 1, '393585ef-e3a8-432f-ac86-8122bb81b10d', 'e142b07c-1ab0-4f40-a4bf-104567d6d9cf', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354845, 'b16b7e900daabbbeedaf388658e74a77457565905d11bb4d0afdf17996eaaeef', '98f5041c7c3b9bde625151e1592a7cecacecb95e103e1068b6c6cc5a13f18192');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 2, '393585ef-e3a8-432f-ac86-8122bb81b10d', 'e142b07c-1ab0-4f40-a4bf-104567d6d9cf', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354848, '98f5041c7c3b9bde625151e1592a7cecacecb95e103e1068b6c6cc5a13f18192', '1cb81c66e8d6704895b02b97f8ad054449ab9fe3cc9ebed1f440e32fe6af0ce6');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 3, '393585ef-e3a8-432f-ac86-8122bb81b10d', 'e142b07c-1ab0-4f40-a4bf-104567d6d9cf', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', 'fbb931b1cbc27bfc', 1795354863, '1cb81c66e8d6704895b02b97f8ad054449ab9fe3cc9ebed1f440e32fe6af0ce6', 'a7e3ced864141d3f99c2b70b6d6b2266f24dcd164ec21d466b60f9ed2b85b976');
INSERT INTO public.charges VALUES ('f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', 1, '168e014c-4da9-4f07-a7e3-6fcc03bf9e1f', 'af93288e-2088-4b90-8933-d9e56842f6b6', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354866, '33f9f11d4c7d50d2a4a0dc1c135c6086a2843e9377f4e436b2aa40d4b55b541f', 'f861fc5f0452a82561ace3c238cd8c55a9d04c316cec3d2feb312bb0c183996b');
INSERT INTO public.charges VALUES ('f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', 2, '168e014c-4da9-4f07-a7e3-6fcc03bf9e1f', 'af93288e-2088-4b90-8933-d9e56842f6b6', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354868, 'f861fc5f0452a82561ace3c238cd8c55a9d04c316cec3d2feb312bb0c183996b', '69fafe6edff605187453dab568aef7307e2d93526b6078a721ba363430d7a78c');
INSERT INTO public.charges VALUES ('f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', 3, '168e014c-4da9-4f07-a7e3-6fcc03bf9e1f', 'af93288e-2088-4b90-8933-d9e56842f6b6', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', 'fdc5f02fc6ef1fec', 1795354870, '69fafe6edff605187453dab568aef7307e2d93526b6078a721ba363430d7a78c', '3c6181d16ac920c5db87cba10948182b5d86c228d8bd830139fa3accc04b7c7b');
INSERT INTO public.charges VALUES ('42465036-a28e-498f-b965-c2059f88500c', 1, 'bca5b2b1-de5c-4280-9405-4d863add77af', 'bb87b570-8305-4277-b3d2-f2a8a47328ee', 'reserved', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795354874, '88a039be0efeef7bc303cc53886220333a288dd28fc7e62b92ebfd93036d755e', '15ab655a3d034631500cff1f17d2673c2dce648c616d36b5d1fcc7af7e678e76');
INSERT INTO public.charges VALUES ('42465036-a28e-498f-b965-c2059f88500c', 2, 'bca5b2b1-de5c-4280-9405-4d863add77af', 'bb87b570-8305-4277-b3d2-f2a8a47328ee', 'spent', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795354876, '15ab655a3d034631500cff1f17d2673c2dce648c616d36b5d1fcc7af7e678e76', '17ee4677d3082e87346535dec2c8e73c7f7c3a8fd10780e1c5e0210005aad46b');
INSERT INTO public.charges VALUES ('42465036-a28e-498f-b965-c2059f88500c', 3, 'bca5b2b1-de5c-4280-9405-4d863add77af', 'bb87b570-8305-4277-b3d2-f2a8a47328ee', 'released', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', 'abe2981803519731', 1795354878, '17ee4677d3082e87346535dec2c8e73c7f7c3a8fd10780e1c5e0210005aad46b', '83f962b0fe6a6c9a61eadd9c564c7b2925a164aae7c9ed72989b2a518360a595');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 4, '1f8eeb6e-9a77-4059-a75c-06442e9608d2', 'f9605986-50c0-441a-8c1a-0ebadf3a96ad', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354883, 'a7e3ced864141d3f99c2b70b6d6b2266f24dcd164ec21d466b60f9ed2b85b976', 'd1555d0b93ebd635aa0626b918c4ff79371326b22df26df5b6f1a67a115652a0');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 5, 'd57a25c0-7ba9-4eea-9389-4564be4bbd5e', 'c093ebe3-4aa4-4ef6-8404-9e1f091e52fa', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354885, 'd1555d0b93ebd635aa0626b918c4ff79371326b22df26df5b6f1a67a115652a0', 'b79bb8110708c7813883937142d6c96a9fb3264bf5af86cf19204398b4d480e4');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 6, '2470a8a4-f7ae-4c74-96f6-b09e082e12ab', '438535b3-709b-480e-bce6-3dfb692e654c', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354887, 'b79bb8110708c7813883937142d6c96a9fb3264bf5af86cf19204398b4d480e4', 'ec988b86e01f3bee047e91488fa4e5463cce5cf61ec3b4ea47acf122ad96dce7');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 7, '3eaf3f0b-ff30-481c-8599-323b0bb62911', 'ae4891f9-7946-4a0d-8932-36e097b2f0af', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354889, 'ec988b86e01f3bee047e91488fa4e5463cce5cf61ec3b4ea47acf122ad96dce7', '1eae8c7eb5e403e029303fc8867c9fb6aa94fa1a0ad337b97231821c7fb24e90');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 8, '790a7b50-fa10-413f-9dfc-caf12189af0e', 'a1757b6c-9d76-4fc0-be10-5733b02754b5', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354891, '1eae8c7eb5e403e029303fc8867c9fb6aa94fa1a0ad337b97231821c7fb24e90', '7c32e964aaa1de7147985264b62aa3b86bff5557cace21dab1e91c62ba5e5ecb');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 9, '324b3f5d-f770-4d5a-a8df-9c1cbb8e7f36', '9aad0cdb-4adc-4b5f-9796-812cf173c41c', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354892, '7c32e964aaa1de7147985264b62aa3b86bff5557cace21dab1e91c62ba5e5ecb', '3ee70dc78f2b5523bc5c6f899562181561876d38f55d2536eb2e80d98e38c0ac');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 10, '324b3f5d-f770-4d5a-a8df-9c1cbb8e7f36', '9aad0cdb-4adc-4b5f-9796-812cf173c41c', 'freed', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354892, '3ee70dc78f2b5523bc5c6f899562181561876d38f55d2536eb2e80d98e38c0ac', '9df370701fe6e85471aa2062bd3aff02818c837d64b080440c9512fc4319ddf0');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 11, '2470a8a4-f7ae-4c74-96f6-b09e082e12ab', '438535b3-709b-480e-bce6-3dfb692e654c', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354893, '9df370701fe6e85471aa2062bd3aff02818c837d64b080440c9512fc4319ddf0', 'f8a632e85ae0424bbe2f6027e03a0fb70104bb47a68eb107a3f57a9e3ff34458');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 12, '3eaf3f0b-ff30-481c-8599-323b0bb62911', 'ae4891f9-7946-4a0d-8932-36e097b2f0af', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354893, 'f8a632e85ae0424bbe2f6027e03a0fb70104bb47a68eb107a3f57a9e3ff34458', '2a599f4832d50206ddeb3c2cda67b9c1a739d5a5dd91017d3f93a8ed2f2be5f9');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 13, '790a7b50-fa10-413f-9dfc-caf12189af0e', 'a1757b6c-9d76-4fc0-be10-5733b02754b5', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354893, '2a599f4832d50206ddeb3c2cda67b9c1a739d5a5dd91017d3f93a8ed2f2be5f9', '405437df36775c3c801ab8c25c880865c448f972635720b855ec1f6569ccb015');
INSERT INTO public.charges VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 14, '790a7b50-fa10-413f-9dfc-caf12189af0e', 'a1757b6c-9d76-4fc0-be10-5733b02754b5', 'failed-spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795354893, '405437df36775c3c801ab8c25c880865c448f972635720b855ec1f6569ccb015', 'ba6fe865ee855e306bd3c9d56e38bb0407c09397d08c9cf51f88107414d2fa83');


--
-- Data for Name: decisions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.decisions VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 1, 0, 'cap', '{"delta": 1e-05, "epsilon": 6.0}', 'owner', 1795354841, '2059e5dc7ff1d0a506c420e061e23661e0028859c16a5462695257f207a7d62b', '896b71b2efd15a864b87816eae07ec78ae27bfa3678a9220ad880048a876b43f');
INSERT INTO public.decisions VALUES ('078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 2, 0, 'unit', '{"id_column": null, "neighbours": "add_remove", "protects": "person", "rows_per_unit": 1}', '', 1795354845, '896b71b2efd15a864b87816eae07ec78ae27bfa3678a9220ad880048a876b43f', 'b16b7e900daabbbeedaf388658e74a77457565905d11bb4d0afdf17996eaaeef');
INSERT INTO public.decisions VALUES ('f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', 1, 0, 'unit', '{"id_column": "pid", "neighbours": "add_remove", "protects": "patient", "rows_per_unit": null}', '', 1795354866, 'c5ed685511afb35efc9ed43bc8123fc700499852d5124e355588100bf9028e9d', '33f9f11d4c7d50d2a4a0dc1c135c6086a2843e9377f4e436b2aa40d4b55b541f');
INSERT INTO public.decisions VALUES ('42465036-a28e-498f-b965-c2059f88500c', 1, 0, 'unit', '{"id_column": null, "neighbours": "one_cell", "protects": "person", "rows_per_unit": 1}', '', 1795354874, '3027ac81e02fe78ee0d6ec51c44f601c66fa028dab22b2ce8f52a69f01eab0a6', '0e98557a980be9c71d1775524f1986dd7ab25af2205a20bc552d196a3b5dfd26');
INSERT INTO public.decisions VALUES ('42465036-a28e-498f-b965-c2059f88500c', 2, 0, 'cells', '{"change": 1.0, "label": "region", "ranges": [], "run": "bb87b570-8305-4277-b3d2-f2a8a47328ee"}', '', 1795354874, '0e98557a980be9c71d1775524f1986dd7ab25af2205a20bc552d196a3b5dfd26', '88a039be0efeef7bc303cc53886220333a288dd28fc7e62b92ebfd93036d755e');
INSERT INTO public.decisions VALUES ('5d026140-f7e7-4a0f-af1a-b86eaacab5bc', 1, 0, 'cap', '{"delta": 1e-06, "epsilon": 2.0}', 'owner', 1795354893, '7321ab5f5ea51b71c8892772fb45ec531862332d9011dbe133bb684c65737b56', '062b1eb85018ddd237b5c7d784ecb3cf3c5c34a41dfa158ad9790874ef53e93b');
INSERT INTO public.decisions VALUES ('753926b0-503e-4777-95a5-d57d1041a33a', 1, 0, 'frozen', '{"because": "for the test"}', 'owner', 1795354893, 'daf9a52d412c3d7b49cdde9186b1b30cade79da1d2f55bd310de12c31db1a770', '17e0e62c371fee792120a0edab32052bc97cc02ca5cec9bbd6ae9f730cde8f3b');


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.events VALUES (1, 'cap', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', NULL, NULL, 'owner', '{}', 1795354841);
INSERT INTO public.events VALUES (2, 'owner-view', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 'e142b07c-1ab0-4f40-a4bf-104567d6d9cf', NULL, 'owner', '{"what": "report"}', 1795354863);
INSERT INTO public.events VALUES (3, 'same-table', 'f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', NULL, '0469eabe-71dd-468a-bbad-9fead06bd236', '', '{}', 1795354865);
INSERT INTO public.events VALUES (4, 'same-table', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', NULL, '0469eabe-71dd-468a-bbad-9fead06bd236', '', '{}', 1795354865);
INSERT INTO public.events VALUES (5, 'table-deleted', 'f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', NULL, '0469eabe-71dd-468a-bbad-9fead06bd236', 'owner', '{}', 1795354870);
INSERT INTO public.events VALUES (6, 'same-table', 'f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', NULL, '6ddb6bee-c247-4954-90c0-1eb8f6956a51', '', '{}', 1795354872);
INSERT INTO public.events VALUES (7, 'same-table', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', NULL, '6ddb6bee-c247-4954-90c0-1eb8f6956a51', '', '{}', 1795354872);
INSERT INTO public.events VALUES (8, 'same-table', '42465036-a28e-498f-b965-c2059f88500c', NULL, '6ddb6bee-c247-4954-90c0-1eb8f6956a51', '', '{}', 1795354872);
INSERT INTO public.events VALUES (9, 'table-deleted', '42465036-a28e-498f-b965-c2059f88500c', NULL, '6ddb6bee-c247-4954-90c0-1eb8f6956a51', 'owner', '{}', 1795354878);
INSERT INTO public.events VALUES (10, 'owner-view', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', NULL, NULL, 'owner', '{"what": "kinds of columns"}', 1795354880);
INSERT INTO public.events VALUES (11, 'cap', '5d026140-f7e7-4a0f-af1a-b86eaacab5bc', NULL, NULL, 'owner', '{}', 1795354893);
INSERT INTO public.events VALUES (12, 'frozen', '753926b0-503e-4777-95a5-d57d1041a33a', NULL, NULL, 'owner', '{"because": "for the test"}', 1795354893);


--
-- Data for Name: hermitage_commits; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hermitage_commits VALUES ('827ba9caed6743148c3e0652d5630834', 5, '2026-11-22 13:40:41.371663+00');
INSERT INTO public.hermitage_commits VALUES ('98c1221af56646ce838e93a991004e2e', 17, '2026-11-22 13:41:18.851962+00');
INSERT INTO public.hermitage_commits VALUES ('527a3c21a2d146da9a8b47c04a2da868', 12, '2026-11-22 13:41:18.859407+00');
INSERT INTO public.hermitage_commits VALUES ('5da6912b4ca54473ba9bf062512614f4', 15, '2026-11-22 13:41:03.419925+00');
INSERT INTO public.hermitage_commits VALUES ('e03deedf48834b23a734d990a1dbc279', 17, '2026-11-22 13:41:03.437947+00');
INSERT INTO public.hermitage_commits VALUES ('96b5ccd0c654430089bb88aa3c54208a', 34, '2026-11-22 13:41:33.060185+00');
INSERT INTO public.hermitage_commits VALUES ('c439ba172cb84257b1fbcfee80ebd553', 13, '2026-11-22 13:41:10.624914+00');
INSERT INTO public.hermitage_commits VALUES ('1f67cf33e5ec4abda8001dbf7736e0cd', 16, '2026-11-22 13:41:10.628033+00');
INSERT INTO public.hermitage_commits VALUES ('7dce4083273c4141a08ed8c366da0908', 17, '2026-11-22 13:41:33.387435+00');
INSERT INTO public.hermitage_commits VALUES ('61884a00eb1e4d6990f037fbfcbf3a07', 12, '2026-11-22 13:41:33.576119+00');


--
-- Data for Name: releases; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.releases VALUES ('29e523ef-f4e0-4232-82fd-bc1f170de2c4', 'e142b07c-1ab0-4f40-a4bf-104567d6d9cf', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 'fbb931b1cbc27bfc', 'fbb931b1cbc27bfc5b5b0b4932850277d8c517b3e9b2169ad7c4008bc2490290', '{"1": "run from the command line or Python"}', 'owner', 1795354863);
INSERT INTO public.releases VALUES ('e1a6e198-545f-4355-b8c6-d072452745cb', 'af93288e-2088-4b90-8933-d9e56842f6b6', 'f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', 'fdc5f02fc6ef1fec', 'fdc5f02fc6ef1feca5bb2b04293c341a1628d3fb18f59e0310398a0fe30c2200', '{"1": "run from the command line or Python"}', 'owner', 1795354870);
INSERT INTO public.releases VALUES ('41c2e779-5460-4ac8-957e-04d9232fd13e', 'bb87b570-8305-4277-b3d2-f2a8a47328ee', '42465036-a28e-498f-b965-c2059f88500c', 'abe2981803519731', 'abe2981803519731f8b9936fa3d5eb66bc4e2c10f19576ab4ac760db1e8e8723', '{"1": "run from the command line or Python"}', 'owner', 1795354878);


--
-- Data for Name: runs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.runs VALUES ('e142b07c-1ab0-4f40-a4bf-104567d6d9cf', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', '76fdf1d8-060f-4d8a-bc52-9c9f6c8cf536', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'cpu');
INSERT INTO public.runs VALUES ('af93288e-2088-4b90-8933-d9e56842f6b6', 'f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', '0469eabe-71dd-468a-bbad-9fead06bd236', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "visits", "unit": {"protects": "patient", "rows_per_unit": 4, "id_column": "pid"}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "identifier"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'cpu');
INSERT INTO public.runs VALUES ('bb87b570-8305-4277-b3d2-f2a8a47328ee', '42465036-a28e-498f-b965-c2059f88500c', '6ddb6bee-c247-4954-90c0-1eb8f6956a51', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "cells", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-05}, "holdout": 0.0, "generator": {"name": "kahm", "options": {"mode": "cell", "n": 2}}, "rows": 60, "label": "region", "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}, "protection": "cell", "cell_change": 1.0}', 'cpu');
INSERT INTO public.runs VALUES ('f9605986-50c0-441a-8c1a-0ebadf3a96ad', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', '76fdf1d8-060f-4d8a-bc52-9c9f6c8cf536', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('c093ebe3-4aa4-4ef6-8404-9e1f091e52fa', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', '76fdf1d8-060f-4d8a-bc52-9c9f6c8cf536', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('438535b3-709b-480e-bce6-3dfb692e654c', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', '76fdf1d8-060f-4d8a-bc52-9c9f6c8cf536', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('ae4891f9-7946-4a0d-8932-36e097b2f0af', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', '76fdf1d8-060f-4d8a-bc52-9c9f6c8cf536', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('a1757b6c-9d76-4fc0-be10-5733b02754b5', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', '76fdf1d8-060f-4d8a-bc52-9c9f6c8cf536', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('9aad0cdb-4adc-4b5f-9796-812cf173c41c', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', '76fdf1d8-060f-4d8a-bc52-9c9f6c8cf536', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);


--
-- Data for Name: store_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_version VALUES (5, NULL);


--
-- Data for Name: tables; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tables VALUES ('76fdf1d8-060f-4d8a-bc52-9c9f6c8cf536', '078dc891-99e0-4ed1-80d1-8b35f0b71fc1', 'visits.csv', 'table', 2593, 'stored', '0776d5c7f5cbc8f3801ec7a0017212677fba015fd3dda0b76bd3b96a12e5c73e', 5395354843, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795354843, NULL);
INSERT INTO public.tables VALUES ('0469eabe-71dd-468a-bbad-9fead06bd236', 'f0ce2f36-6ead-4d74-8e47-8fd0ef8ce3cc', 'visits.csv', 'table', 2593, 'deleted', '0776d5c7f5cbc8f3801ec7a0017212677fba015fd3dda0b76bd3b96a12e5c73e', 5395354865, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795354865, 1795354870);
INSERT INTO public.tables VALUES ('6ddb6bee-c247-4954-90c0-1eb8f6956a51', '42465036-a28e-498f-b965-c2059f88500c', 'visits.csv', 'table', 2593, 'deleted', '0776d5c7f5cbc8f3801ec7a0017212677fba015fd3dda0b76bd3b96a12e5c73e', 5395354872, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795354872, 1795354878);


--
-- Data for Name: work; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.work VALUES ('af93288e-2088-4b90-8933-d9e56842f6b6', 'run', 'af93288e-2088-4b90-8933-d9e56842f6b6', NULL, 'owner', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 19524, 3.548948660502923e+15, true, 1, 1795354870, NULL, 1795354866, 1795354866, 1795354870);
INSERT INTO public.work VALUES ('a1757b6c-9d76-4fc0-be10-5733b02754b5', 'run', 'a1757b6c-9d76-4fc0-be10-5733b02754b5', NULL, 'owner', 'failed', '', 0, 0, '[]', 'The worker stopped without a word.', NULL, NULL, 0, 1, 4, 'a machine of before', 1, 1, true, 1, 1795354893, NULL, 1795354891, 1795354893, 1795354893);
INSERT INTO public.work VALUES ('bc471fe5-e7d8-47f7-93aa-46001c2adf2c', 'rehearsal', '0000000000000000000000000000000000000000000000000000000000000000', '"what was asked"', 'owner', 'running', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795354893, NULL, 1795354893, 1795354893, NULL);
INSERT INTO public.work VALUES ('743e4e40-27e1-4688-9937-8a71d3d0acfd', 'grid', '1111111111111111111111111111111111111111111111111111111111111111', '"what was asked"', 'owner', 'failed', '', 0, 0, '[]', 'The worker stopped without a word.', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795354893, NULL, 1795354893, 1795354893, 1795354893);
INSERT INTO public.work VALUES ('99c2f6e1-8934-4a92-9d8e-e73f0a8b510f', 'report', 'e142b07c-1ab0-4f40-a4bf-104567d6d9cf predictions', '"what was asked"', 'owner', 'reported', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795354893, NULL, 1795354893, 1795354893, 1795354893);
INSERT INTO public.work VALUES ('e142b07c-1ab0-4f40-a4bf-104567d6d9cf', 'run', 'e142b07c-1ab0-4f40-a4bf-104567d6d9cf', NULL, 'owner', 'released', 'Reporting to the owner', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 19524, 3.548948660502923e+15, true, 1, 1795354855, NULL, 1795354845, 1795354845, 1795354863);
INSERT INTO public.work VALUES ('bb87b570-8305-4277-b3d2-f2a8a47328ee', 'run', 'bb87b570-8305-4277-b3d2-f2a8a47328ee', NULL, 'owner', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 19524, 3.548948660502923e+15, true, 1, 1795354878, NULL, 1795354874, 1795354874, 1795354878);
INSERT INTO public.work VALUES ('f9605986-50c0-441a-8c1a-0ebadf3a96ad', 'run', 'f9605986-50c0-441a-8c1a-0ebadf3a96ad', NULL, 'owner', 'planned', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, 0, NULL, NULL, 1795354883, NULL, NULL);
INSERT INTO public.work VALUES ('9aad0cdb-4adc-4b5f-9796-812cf173c41c', 'run', '9aad0cdb-4adc-4b5f-9796-812cf173c41c', NULL, 'owner', 'cancelled', '', 0, 0, '[]', 'The run was cancelled before it began. Its budget never became spent, so it was freed.', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, 0, NULL, NULL, 1795354892, NULL, 1795354892);
INSERT INTO public.work VALUES ('c093ebe3-4aa4-4ef6-8404-9e1f091e52fa', 'run', 'c093ebe3-4aa4-4ef6-8404-9e1f091e52fa', NULL, 'owner', 'queued', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 1, NULL, NULL, NULL, false, 0, NULL, NULL, 1795354885, NULL, NULL);
INSERT INTO public.work VALUES ('438535b3-709b-480e-bce6-3dfb692e654c', 'run', '438535b3-709b-480e-bce6-3dfb692e654c', NULL, 'owner', 'running', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 2, 'a machine of before', 1, 1, true, 1, 1795354893, NULL, 1795354887, 1795354893, NULL);
INSERT INTO public.work VALUES ('ae4891f9-7946-4a0d-8932-36e097b2f0af', 'run', 'ae4891f9-7946-4a0d-8932-36e097b2f0af', NULL, 'owner', 'measured', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 3, 'a machine of before', 1, 1, true, 1, 1795354893, NULL, 1795354889, 1795354893, NULL);
INSERT INTO public.work VALUES ('14d6ee0b-839b-4493-a270-2ac1d6472079', 'report', 'e142b07c-1ab0-4f40-a4bf-104567d6d9cf shadow-models', '"what was asked"', 'owner', 'cancelled', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795354893, NULL, 1795354893, 1795354893, 1795354893);


--
-- Name: events_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.events_id_seq', 12, true);


--
-- Name: accounts accounts_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_name_key UNIQUE (name);


--
-- Name: accounts accounts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);


--
-- Name: charges charges_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_pkey PRIMARY KEY (account_id, "position");


--
-- Name: decisions decisions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_pkey PRIMARY KEY (account_id, number);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);


--
-- Name: hermitage_commits hermitage_commits_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hermitage_commits
    ADD CONSTRAINT hermitage_commits_pkey PRIMARY KEY (client);


--
-- Name: releases releases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_pkey PRIMARY KEY (id);


--
-- Name: runs runs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);


--
-- Name: store_version store_version_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.store_version
    ADD CONSTRAINT store_version_pkey PRIMARY KEY (number);


--
-- Name: tables tables_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tables
    ADD CONSTRAINT tables_pkey PRIMARY KEY (id);


--
-- Name: work work_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.work
    ADD CONSTRAINT work_pkey PRIMARY KEY (id);


--
-- Name: ix_charges_charge_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_charges_charge_id ON public.charges USING btree (charge_id);


--
-- Name: ix_charges_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_charges_run_id ON public.charges USING btree (run_id);


--
-- Name: ix_events_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_events_account_id ON public.events USING btree (account_id);


--
-- Name: ix_events_kind; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_events_kind ON public.events USING btree (kind);


--
-- Name: ix_releases_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_releases_account_id ON public.releases USING btree (account_id);


--
-- Name: ix_releases_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_releases_run_id ON public.releases USING btree (run_id);


--
-- Name: ix_runs_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_runs_account_id ON public.runs USING btree (account_id);


--
-- Name: ix_tables_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_account_id ON public.tables USING btree (account_id);


--
-- Name: ix_tables_fingerprint; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_fingerprint ON public.tables USING btree (fingerprint);


--
-- Name: ix_work_state; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_work_state ON public.work USING btree (state);


--
-- Name: ix_work_subject; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX ix_work_subject ON public.work USING btree (kind, subject);


--
-- Name: accounts accounts_fixed; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_fixed BEFORE UPDATE ON public.accounts FOR EACH ROW WHEN ((((new.id)::text IS DISTINCT FROM (old.id)::text) OR ((new.name)::text IS DISTINCT FROM (old.name)::text) OR (new.created IS DISTINCT FROM old.created) OR ((old.neighbours IS NOT NULL) AND ((new.neighbours)::text IS DISTINCT FROM (old.neighbours)::text)) OR ((old.protects IS NOT NULL) AND (new.protects IS DISTINCT FROM old.protects)) OR ((old.id_column IS NOT NULL) AND (new.id_column IS DISTINCT FROM old.id_column)) OR ((old.rows_per_unit IS NOT NULL) AND (new.rows_per_unit IS DISTINCT FROM old.rows_per_unit)))) EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: accounts accounts_stay; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_stay BEFORE DELETE OR TRUNCATE ON public.accounts FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: charges charges_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER charges_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.charges FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: decisions decisions_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER decisions_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.decisions FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: events events_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER events_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: releases releases_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER releases_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.releases FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: charges charges_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: decisions decisions_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: releases releases_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: releases releases_run_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);


--
-- Name: runs runs_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: runs runs_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_table_id_fkey FOREIGN KEY (table_id) REFERENCES public.tables(id);


--
-- Name: runs runs_test_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_test_table_id_fkey FOREIGN KEY (test_table_id) REFERENCES public.tables(id);


--
-- Name: tables tables_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tables
    ADD CONSTRAINT tables_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- PostgreSQL database dump complete
--


