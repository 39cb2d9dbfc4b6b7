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
    unit text,
    epsilon_cap double precision,
    delta_cap double precision,
    frozen boolean NOT NULL,
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
    owner character varying(120) NOT NULL,
    config text NOT NULL,
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
    heartbeat bigint,
    gpu text,
    device text,
    created bigint NOT NULL,
    started bigint,
    finished bigint
);


--
-- Name: store_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.store_version (
    number integer NOT NULL
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
-- Name: events id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events ALTER COLUMN id SET DEFAULT nextval('public.events_id_seq'::regclass);


--
-- Data for Name: accounts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.accounts VALUES ('7349e4d6-afc2-4f4f-a274-34b71ddf732f', 'survey', 'replace_one', 'person', 'Protects one person contributing one row', 4, 1e-06, false, '\xb9e71077040d70c31bc066dd420040e97f26cbfdd9658c5a999af1dff33355a3377d0109dbf61335dadc48903cdca2f5cb4f83f1222d4c29c5e5b95c', 1795316261);
INSERT INTO public.accounts VALUES ('4e9ec9ae-cf75-47f5-b364-d7425a3b0bb6', 'undescribed', NULL, NULL, NULL, 2, 1e-06, false, NULL, 1795316264);
INSERT INTO public.accounts VALUES ('e353630e-6d02-4ffc-852b-6deff7089747', 'visits', 'replace_one', 'patient', 'Protects one patient contributing up to 4 rows', NULL, NULL, false, '\x24f52b4095a8f1f4fe0c1246c1052e92c7f3fa0ab2b467af58f245a644ed5c6cfd3070ecc9c65b7e02254118a42d8becd73aabcaa3d19cd016ddb1dc', 1795316264);
INSERT INTO public.accounts VALUES ('b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 'mixed', 'add_remove', 'person', 'Protects one person contributing up to 4 rows', NULL, NULL, false, '\xd91b3d93c130a842af6799ed6651cb9cb242adb8199722f8e13f88c7c515c2935d0c6c8e585db136a2234ced61f9610d21ef4a8e009b95de2dcd328e', 1795316267);
INSERT INTO public.accounts VALUES ('606a12bf-a883-4490-a24b-ecbf1eea44e0', 'cells', 'one_cell', 'person', 'Protects ONE CELL; class labels, class sizes and the number of rows are not protected', NULL, NULL, false, '\x7c4e5db1c1a37365fd8be37afe481775dadd0be46aff47b6a0710ed5b3480eb76315093c09d2307cee4692c5efcb22e55d02103ccf8203d2c646a289', 1795316269);


--
-- Data for Name: charges; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.charges VALUES ('7349e4d6-afc2-4f4f-a274-34b71ddf732f', 1, 'd02f70cc-04f3-43eb-8794-bdf278e8c898', '7c3f77b2-a8ad-4ab6-b432-eb5086c3434b', 'reserved', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316261, '96361b2d107a77887b98c5d9fc1bffb80fd7be6a185ef17cca3aa0ef1760420e', '6e2250133dd4b0f434677f331c279022d57e41896c80f8f4d6cf0dc387198d66');
INSERT INTO public.charges VALUES ('7349e4d6-afc2-4f4f-a274-34b71ddf732f', 2, 'd02f70cc-04f3-43eb-8794-bdf278e8c898', '7c3f77b2-a8ad-4ab6-b432-eb5086c3434b', 'spent', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316261, '6e2250133dd4b0f434677f331c279022d57e41896c80f8f4d6cf0dc387198d66', '7b503a4e0e15f3599e9601a888a6eb06a791e177d079f97735622fd7b10d7b74');
INSERT INTO public.charges VALUES ('7349e4d6-afc2-4f4f-a274-34b71ddf732f', 3, 'd02f70cc-04f3-43eb-8794-bdf278e8c898', '7c3f77b2-a8ad-4ab6-b432-eb5086c3434b', 'released', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', '63032874c88688f5', 1795316263, '7b503a4e0e15f3599e9601a888a6eb06a791e177d079f97735622fd7b10d7b74', 'ecce1e590b71df55e4bb0fe6606efb8c89426e2af0ed5564f0e60c6436784fb5');
INSERT INTO public.charges VALUES ('7349e4d6-afc2-4f4f-a274-34b71ddf732f', 4, 'da4e225d-6f40-4fd2-b25e-0489b788f357', 'b7dddf76-b814-4685-9487-42a78b342015', 'reserved', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316264, 'ecce1e590b71df55e4bb0fe6606efb8c89426e2af0ed5564f0e60c6436784fb5', '798b7e5e963eed9d3dab1e7bb698855ce3d41498d959b0b7e1ea5ae19e7e004d');
INSERT INTO public.charges VALUES ('7349e4d6-afc2-4f4f-a274-34b71ddf732f', 5, 'da4e225d-6f40-4fd2-b25e-0489b788f357', 'b7dddf76-b814-4685-9487-42a78b342015', 'freed', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316264, '798b7e5e963eed9d3dab1e7bb698855ce3d41498d959b0b7e1ea5ae19e7e004d', 'bec764e3adf8a40204a867b8ce2a4d7e698b5d3230827d8ea61e53dbe9e5be01');
INSERT INTO public.charges VALUES ('7349e4d6-afc2-4f4f-a274-34b71ddf732f', 6, '18f07fc9-38da-46bc-8639-e10bb9edf2ae', '343c6e62-43bd-407e-9a3c-d98ca5fc1007', 'reserved', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316264, 'bec764e3adf8a40204a867b8ce2a4d7e698b5d3230827d8ea61e53dbe9e5be01', 'b42c7e2e35f8d944859af85036ab99357a32220cd3a6ac52b50b62fa32dbf00f');
INSERT INTO public.charges VALUES ('7349e4d6-afc2-4f4f-a274-34b71ddf732f', 7, '18f07fc9-38da-46bc-8639-e10bb9edf2ae', '343c6e62-43bd-407e-9a3c-d98ca5fc1007', 'spent', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316264, 'b42c7e2e35f8d944859af85036ab99357a32220cd3a6ac52b50b62fa32dbf00f', '45335ec70bf22221f4fded9002f63d0247c86bc96afc3d2716f93dc1e792775a');
INSERT INTO public.charges VALUES ('7349e4d6-afc2-4f4f-a274-34b71ddf732f', 8, '18f07fc9-38da-46bc-8639-e10bb9edf2ae', '343c6e62-43bd-407e-9a3c-d98ca5fc1007', 'failed-spent', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316264, '45335ec70bf22221f4fded9002f63d0247c86bc96afc3d2716f93dc1e792775a', 'c8bf939a1b483fb11c0450ee14bbdca72b357aa8d535cb568f4fa01b6efc6a9a');
INSERT INTO public.charges VALUES ('e353630e-6d02-4ffc-852b-6deff7089747', 1, '326c7b58-8b6b-4c96-afa5-1d8a99e4f992', 'd51c8ce6-4513-47da-ace4-d1fb8a7fe95c', 'reserved', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316265, 'c294ae66dbc88ffba5873c93b8dfaa410c9b59f8ed5dff2d4f9869a24caadc4f', 'd96b4a89ec6a8563b8302bc5c41179fa34ff1def9d3fb479217cd66ccfcfdad2');
INSERT INTO public.charges VALUES ('e353630e-6d02-4ffc-852b-6deff7089747', 2, '326c7b58-8b6b-4c96-afa5-1d8a99e4f992', 'd51c8ce6-4513-47da-ace4-d1fb8a7fe95c', 'spent', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316265, 'd96b4a89ec6a8563b8302bc5c41179fa34ff1def9d3fb479217cd66ccfcfdad2', 'c7b7b5ffa42d1ceab17c0e4a355662704d59e8bb1e42a48711abc4c90585aaea');
INSERT INTO public.charges VALUES ('e353630e-6d02-4ffc-852b-6deff7089747', 3, '326c7b58-8b6b-4c96-afa5-1d8a99e4f992', 'd51c8ce6-4513-47da-ace4-d1fb8a7fe95c', 'released', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', '00b970943ce9ddca', 1795316265, 'c7b7b5ffa42d1ceab17c0e4a355662704d59e8bb1e42a48711abc4c90585aaea', '233d702b6899164dbf73674a1747f1dadef70a4716593af703c7ed4594ca5a2a');
INSERT INTO public.charges VALUES ('e353630e-6d02-4ffc-852b-6deff7089747', 4, '70e2599b-76f5-4fab-896f-0200efbefde1', '5ff10952-405d-4b7d-b8f6-d049630e7cc8', 'reserved', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316266, '233d702b6899164dbf73674a1747f1dadef70a4716593af703c7ed4594ca5a2a', '7859febe6b29c52439659258b0640c3809757ce620bd662457a0602a58338a04');
INSERT INTO public.charges VALUES ('e353630e-6d02-4ffc-852b-6deff7089747', 5, '70e2599b-76f5-4fab-896f-0200efbefde1', '5ff10952-405d-4b7d-b8f6-d049630e7cc8', 'spent', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316266, '7859febe6b29c52439659258b0640c3809757ce620bd662457a0602a58338a04', 'ffbf32792df5561c373cb553900d1c011ed9119402c9f0d4bcd9f4dbc0a9ecf1');
INSERT INTO public.charges VALUES ('e353630e-6d02-4ffc-852b-6deff7089747', 6, '70e2599b-76f5-4fab-896f-0200efbefde1', '5ff10952-405d-4b7d-b8f6-d049630e7cc8', 'released', 'synthetic table by independent', 'owner', 'replace_one', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', '42c557b3c320d45d', 1795316267, 'ffbf32792df5561c373cb553900d1c011ed9119402c9f0d4bcd9f4dbc0a9ecf1', '5756fd8fb84c5ca4e25eee142f04ae621450fce533b2d5ce0cdfe6da817db444');
INSERT INTO public.charges VALUES ('b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 1, '3422e893-dbd1-4e20-baa2-030c4d04b190', '3afaf2aa-bbd8-4038-8b7c-1605732f9ba5', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316267, 'f9ea782494ff96d80cc5e63533934c3535dfe7db086becf7615a1af35b875608', 'e47c88d1da35564b37a9fa41b8d774b7c4aa0f2e04636faaf1de46b942dcd97c');
INSERT INTO public.charges VALUES ('b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 2, '3422e893-dbd1-4e20-baa2-030c4d04b190', '3afaf2aa-bbd8-4038-8b7c-1605732f9ba5', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316267, 'e47c88d1da35564b37a9fa41b8d774b7c4aa0f2e04636faaf1de46b942dcd97c', '86e11c8e762c5067955880b52591e078c47ab8ebfe3298fc8f9cd58554c313f4');
INSERT INTO public.charges VALUES ('b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 3, '3422e893-dbd1-4e20-baa2-030c4d04b190', '3afaf2aa-bbd8-4038-8b7c-1605732f9ba5', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', '5c1ed76ecbe27bd9', 1795316268, '86e11c8e762c5067955880b52591e078c47ab8ebfe3298fc8f9cd58554c313f4', '3f5c10dfdcc57e69d2c9a6f5d3c1438c0249257ac9d27eb27322d98ee47f8804');
INSERT INTO public.charges VALUES ('b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 4, 'd20db01e-66a5-4607-b33b-b788921e9664', 'b46480f0-61e2-49b8-9dc8-b94b28ad964b', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316269, '3f5c10dfdcc57e69d2c9a6f5d3c1438c0249257ac9d27eb27322d98ee47f8804', '6fef2a782319fab0e78acde1dd163612fd861d98879358323f73048aa218b922');
INSERT INTO public.charges VALUES ('b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 5, 'd20db01e-66a5-4607-b33b-b788921e9664', 'b46480f0-61e2-49b8-9dc8-b94b28ad964b', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795316269, '6fef2a782319fab0e78acde1dd163612fd861d98879358323f73048aa218b922', '1e2135a1d13fb9d47d6e0b8ddec475df5a583ea57d987dc9d2e796a925e3b236');
INSERT INTO public.charges VALUES ('b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 6, 'd20db01e-66a5-4607-b33b-b788921e9664', 'b46480f0-61e2-49b8-9dc8-b94b28ad964b', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', '7be62c1d19c0c7da', 1795316269, '1e2135a1d13fb9d47d6e0b8ddec475df5a583ea57d987dc9d2e796a925e3b236', '3c708c35124623dc9d6ef19bbb63781b2ff2eb4e855f23eaed8fe04acfd30907');
INSERT INTO public.charges VALUES ('606a12bf-a883-4490-a24b-ecbf1eea44e0', 1, '9e160b48-305a-4d52-ae41-7b3a5d77a1ae', '5e351f5b-f4f2-4ae1-b0a4-b0490b9bbc23', 'reserved', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795316270, 'e7763958ff609b4da6a81d61c27659e715ac268a0fe9f8d976cefbbb98c0bbd2', 'fb6b8db7a5db9a2057e0d3ac36b7c05ce52852a4420f590ae73a4b1f0db5be56');
INSERT INTO public.charges VALUES ('606a12bf-a883-4490-a24b-ecbf1eea44e0', 2, '9e160b48-305a-4d52-ae41-7b3a5d77a1ae', '5e351f5b-f4f2-4ae1-b0a4-b0490b9bbc23', 'spent', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795316270, 'fb6b8db7a5db9a2057e0d3ac36b7c05ce52852a4420f590ae73a4b1f0db5be56', '1e9a93e62bed05b6d85b6d566910776d10e992659d17be9593d48d3929f1a31c');
INSERT INTO public.charges VALUES ('606a12bf-a883-4490-a24b-ecbf1eea44e0', 3, '9e160b48-305a-4d52-ae41-7b3a5d77a1ae', '5e351f5b-f4f2-4ae1-b0a4-b0490b9bbc23', 'released', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', '75ac8b6361894e9f', 1795316270, '1e9a93e62bed05b6d85b6d566910776d10e992659d17be9593d48d3929f1a31c', 'a614a3ca48e8bdc1b30b4b350ba319747f7073e6d08ae764a0fa4e03d5d2ccb7');


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.events VALUES (1, 'cap', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', NULL, NULL, 'owner', '{}', 1795316261);
INSERT INTO public.events VALUES (2, 'owner-view', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', '7c3f77b2-a8ad-4ab6-b432-eb5086c3434b', NULL, 'owner', '{"what": "report"}', 1795316263);
INSERT INTO public.events VALUES (3, 'cap', '4e9ec9ae-cf75-47f5-b364-d7425a3b0bb6', NULL, NULL, 'owner', '{}', 1795316264);
INSERT INTO public.events VALUES (4, 'same-table', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', NULL, '6d8de471-9bf2-4aed-a347-7fad33bfab4c', '', '{}', 1795316264);
INSERT INTO public.events VALUES (5, 'same-table', 'e353630e-6d02-4ffc-852b-6deff7089747', NULL, '6d8de471-9bf2-4aed-a347-7fad33bfab4c', '', '{}', 1795316264);
INSERT INTO public.events VALUES (6, 'table-deleted', 'e353630e-6d02-4ffc-852b-6deff7089747', NULL, '6d8de471-9bf2-4aed-a347-7fad33bfab4c', 'owner', '{}', 1795316265);
INSERT INTO public.events VALUES (7, 'same-table', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', NULL, '32633934-f6ff-4904-abe4-f423097303d5', '', '{}', 1795316265);
INSERT INTO public.events VALUES (8, 'same-table', 'e353630e-6d02-4ffc-852b-6deff7089747', NULL, '32633934-f6ff-4904-abe4-f423097303d5', '', '{}', 1795316265);
INSERT INTO public.events VALUES (9, 'table-deleted', 'e353630e-6d02-4ffc-852b-6deff7089747', NULL, '32633934-f6ff-4904-abe4-f423097303d5', 'owner', '{}', 1795316267);
INSERT INTO public.events VALUES (10, 'same-table', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', NULL, '74f39a5a-e43b-4b8d-b3f1-04df84abae84', '', '{}', 1795316267);
INSERT INTO public.events VALUES (11, 'same-table', 'e353630e-6d02-4ffc-852b-6deff7089747', NULL, '74f39a5a-e43b-4b8d-b3f1-04df84abae84', '', '{}', 1795316267);
INSERT INTO public.events VALUES (12, 'same-table', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', NULL, '74f39a5a-e43b-4b8d-b3f1-04df84abae84', '', '{}', 1795316267);
INSERT INTO public.events VALUES (13, 'table-deleted', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', NULL, '74f39a5a-e43b-4b8d-b3f1-04df84abae84', 'owner', '{}', 1795316268);
INSERT INTO public.events VALUES (14, 'same-table', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', NULL, 'fc57eb42-da11-480b-9654-023562dbee58', '', '{}', 1795316268);
INSERT INTO public.events VALUES (15, 'same-table', 'e353630e-6d02-4ffc-852b-6deff7089747', NULL, 'fc57eb42-da11-480b-9654-023562dbee58', '', '{}', 1795316268);
INSERT INTO public.events VALUES (16, 'same-table', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', NULL, 'fc57eb42-da11-480b-9654-023562dbee58', '', '{}', 1795316268);
INSERT INTO public.events VALUES (17, 'table-deleted', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', NULL, 'fc57eb42-da11-480b-9654-023562dbee58', 'owner', '{}', 1795316269);
INSERT INTO public.events VALUES (18, 'same-table', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', NULL, '4f2f777f-abf7-4075-87f7-31116da5f6a3', '', '{}', 1795316269);
INSERT INTO public.events VALUES (19, 'same-table', '606a12bf-a883-4490-a24b-ecbf1eea44e0', NULL, '4f2f777f-abf7-4075-87f7-31116da5f6a3', '', '{}', 1795316269);
INSERT INTO public.events VALUES (20, 'same-table', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', NULL, '4f2f777f-abf7-4075-87f7-31116da5f6a3', '', '{}', 1795316269);
INSERT INTO public.events VALUES (21, 'same-table', 'e353630e-6d02-4ffc-852b-6deff7089747', NULL, '4f2f777f-abf7-4075-87f7-31116da5f6a3', '', '{}', 1795316269);
INSERT INTO public.events VALUES (22, 'table-deleted', '606a12bf-a883-4490-a24b-ecbf1eea44e0', NULL, '4f2f777f-abf7-4075-87f7-31116da5f6a3', 'owner', '{}', 1795316270);


--
-- Data for Name: releases; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.releases VALUES ('57f8f940-fee1-49b3-89a2-24a589c0e7dc', '7c3f77b2-a8ad-4ab6-b432-eb5086c3434b', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', '63032874c88688f5', '63032874c88688f54ea4dd6bac8618e29230541b3cd813518cc471f77c64ccad', '{"1": "run from the command line or Python"}', 'owner', 1795316263);
INSERT INTO public.releases VALUES ('69e39126-ef28-47d1-81b1-e2f2d25d08a3', 'd51c8ce6-4513-47da-ace4-d1fb8a7fe95c', 'e353630e-6d02-4ffc-852b-6deff7089747', '00b970943ce9ddca', '00b970943ce9ddcab56a14a0934609a4df3a957b6909079436df4548c00ed97d', '{"1": "run from the command line or Python"}', 'owner', 1795316265);
INSERT INTO public.releases VALUES ('db7937b6-6ae0-4d58-99e9-3b9f4ba791f5', '5ff10952-405d-4b7d-b8f6-d049630e7cc8', 'e353630e-6d02-4ffc-852b-6deff7089747', '42c557b3c320d45d', '42c557b3c320d45d85e743c2d5d0221a4c599c585d3ada30fb51060a4c21db77', '{"1": "run from the command line or Python"}', 'owner', 1795316267);
INSERT INTO public.releases VALUES ('891c20e7-4dd2-42fa-884b-1a8a167db98e', '3afaf2aa-bbd8-4038-8b7c-1605732f9ba5', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', '5c1ed76ecbe27bd9', '5c1ed76ecbe27bd978228a9d5c9e4aad06a4f8bfde66ae8d8586070b28bd0215', '{"1": "run from the command line or Python"}', 'owner', 1795316268);
INSERT INTO public.releases VALUES ('5eb66439-cedb-4ac9-82b1-e06d7b393099', 'b46480f0-61e2-49b8-9dc8-b94b28ad964b', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', '7be62c1d19c0c7da', '7be62c1d19c0c7daaed27a988e45acc1208cc1e44f6bb16f45bf0e6a7b90c29f', '{"1": "run from the command line or Python"}', 'owner', 1795316269);
INSERT INTO public.releases VALUES ('d7af4ac3-a2f6-4c15-8d4f-87aa3414dc0c', '5e351f5b-f4f2-4ae1-b0a4-b0490b9bbc23', '606a12bf-a883-4490-a24b-ecbf1eea44e0', '75ac8b6361894e9f', '75ac8b6361894e9fd2e37581ccfc4ad70ddeeb0ac7c9f5b9909804f496ff7681', '{"1": "run from the command line or Python"}', 'owner', 1795316270);


--
-- Data for Name: runs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.runs VALUES ('7c3f77b2-a8ad-4ab6-b432-eb5086c3434b', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', '295ae57a-bd9b-4e02-8ef8-157d65d0ca48', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "vid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0}, "region": {"type": "category", "values": ["north", "south"]}}}', 'released', 'Attacking', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'vm', 7477, 1795316256.86, true, 1795316263, NULL, 'cpu', 1795316261, 1795316261, 1795316263);
INSERT INTO public.runs VALUES ('b7dddf76-b814-4685-9487-42a78b342015', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', '295ae57a-bd9b-4e02-8ef8-157d65d0ca48', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "vid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0}, "region": {"type": "category", "values": ["north", "south"]}}}', 'cancelled', '', 0, 0, '[]', 'The run was cancelled before it began. Nothing was spent.', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, 1795316264, NULL, 1795316264);
INSERT INTO public.runs VALUES ('343c6e62-43bd-407e-9a3c-d98ca5fc1007', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', '295ae57a-bd9b-4e02-8ef8-157d65d0ca48', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "vid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0}, "region": {"type": "category", "values": ["north", "south"]}}}', 'failed', '', 0, 0, '[]', 'The worker stopped without a word. It had begun to read the rows, so what it was charged stays spent.', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, 1795316264, NULL, 1795316264);
INSERT INTO public.runs VALUES ('d51c8ce6-4513-47da-ace4-d1fb8a7fe95c', 'e353630e-6d02-4ffc-852b-6deff7089747', '6d8de471-9bf2-4aed-a347-7fad33bfab4c', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}, "account": "visits", "unit": {"protects": "patient", "rows_per_unit": 4, "id_column": "pid"}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "identifier"}, "vid": {"type": "identifier"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0}, "region": {"type": "category", "values": ["north", "south"]}}}', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'vm', 7477, 1795316256.86, true, 1795316265, NULL, 'cpu', 1795316265, 1795316265, 1795316265);
INSERT INTO public.runs VALUES ('5ff10952-405d-4b7d-b8f6-d049630e7cc8', 'e353630e-6d02-4ffc-852b-6deff7089747', '32633934-f6ff-4904-abe4-f423097303d5', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}, "account": "visits", "unit": {"protects": "patient", "rows_per_unit": 2, "id_column": "pid"}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "identifier"}, "vid": {"type": "identifier"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0}, "region": {"type": "category", "values": ["north", "south"]}}}', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'vm', 7477, 1795316256.86, true, 1795316267, NULL, 'cpu', 1795316266, 1795316266, 1795316267);
INSERT INTO public.runs VALUES ('3afaf2aa-bbd8-4038-8b7c-1605732f9ba5', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', '74f39a5a-e43b-4b8d-b3f1-04df84abae84', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}, "account": "mixed", "unit": {"protects": "person", "rows_per_unit": 4, "id_column": "pid"}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "identifier"}, "vid": {"type": "identifier"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0}, "region": {"type": "category", "values": ["north", "south"]}}}', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'vm', 7477, 1795316256.86, true, 1795316268, NULL, 'cpu', 1795316267, 1795316267, 1795316268);
INSERT INTO public.runs VALUES ('b46480f0-61e2-49b8-9dc8-b94b28ad964b', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 'fc57eb42-da11-480b-9654-023562dbee58', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}, "account": "mixed", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": "vid"}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "identifier"}, "vid": {"type": "identifier"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0}, "region": {"type": "category", "values": ["north", "south"]}}}', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'vm', 7477, 1795316256.86, true, 1795316269, NULL, 'cpu', 1795316269, 1795316269, 1795316269);
INSERT INTO public.runs VALUES ('5e351f5b-f4f2-4ae1-b0a4-b0490b9bbc23', '606a12bf-a883-4490-a24b-ecbf1eea44e0', '4f2f777f-abf7-4075-87f7-31116da5f6a3', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}, "account": "cells", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-05}, "holdout": 0.0, "generator": {"name": "kahm", "options": {"mode": "cell", "n": 3}}, "rows": 60, "label": "region", "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "vid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0}, "region": {"type": "category", "values": ["north", "south"]}}, "protection": "cell", "cell_change": 1.0}', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'vm', 7477, 1795316256.86, true, 1795316270, NULL, 'cpu', 1795316270, 1795316270, 1795316270);


--
-- Data for Name: store_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_version VALUES (2);


--
-- Data for Name: tables; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tables VALUES ('295ae57a-bd9b-4e02-8ef8-157d65d0ca48', '7349e4d6-afc2-4f4f-a274-34b71ddf732f', 'visits.csv', 'table', 4203, 'stored', 'c62c686400a61ae3a040d01e93de30da5661f8f1fc61a743cf0fe29b860413ad', 5395316261, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}', NULL, 1795316261, NULL);
INSERT INTO public.tables VALUES ('6d8de471-9bf2-4aed-a347-7fad33bfab4c', 'e353630e-6d02-4ffc-852b-6deff7089747', 'visits.csv', 'table', 4203, 'deleted', 'c62c686400a61ae3a040d01e93de30da5661f8f1fc61a743cf0fe29b860413ad', 5395316264, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}', NULL, 1795316264, 1795316265);
INSERT INTO public.tables VALUES ('32633934-f6ff-4904-abe4-f423097303d5', 'e353630e-6d02-4ffc-852b-6deff7089747', 'visits.csv', 'table', 4203, 'deleted', 'c62c686400a61ae3a040d01e93de30da5661f8f1fc61a743cf0fe29b860413ad', 5395316265, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}', NULL, 1795316265, 1795316267);
INSERT INTO public.tables VALUES ('74f39a5a-e43b-4b8d-b3f1-04df84abae84', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 'visits.csv', 'table', 4203, 'deleted', 'c62c686400a61ae3a040d01e93de30da5661f8f1fc61a743cf0fe29b860413ad', 5395316267, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}', NULL, 1795316267, 1795316268);
INSERT INTO public.tables VALUES ('fc57eb42-da11-480b-9654-023562dbee58', 'b9ba4e68-88c5-456a-bc6e-cbf6ccdb01a0', 'visits.csv', 'table', 4203, 'deleted', 'c62c686400a61ae3a040d01e93de30da5661f8f1fc61a743cf0fe29b860413ad', 5395316268, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}', NULL, 1795316268, 1795316269);
INSERT INTO public.tables VALUES ('4f2f777f-abf7-4075-87f7-31116da5f6a3', '606a12bf-a883-4490-a24b-ecbf1eea44e0', 'visits.csv', 'table', 4203, 'deleted', 'c62c686400a61ae3a040d01e93de30da5661f8f1fc61a743cf0fe29b860413ad', 5395316269, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto"}', NULL, 1795316269, 1795316270);


--
-- Name: events_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.events_id_seq', 22, true);


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
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);


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
-- Name: ix_runs_state; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_runs_state ON public.runs USING btree (state);


--
-- Name: ix_tables_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_account_id ON public.tables USING btree (account_id);


--
-- Name: ix_tables_fingerprint; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_fingerprint ON public.tables USING btree (fingerprint);


--
-- Name: accounts accounts_fixed; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_fixed BEFORE UPDATE ON public.accounts FOR EACH ROW WHEN ((((new.id)::text IS DISTINCT FROM (old.id)::text) OR ((new.name)::text IS DISTINCT FROM (old.name)::text) OR (new.created IS DISTINCT FROM old.created) OR ((old.neighbours IS NOT NULL) AND ((new.neighbours)::text IS DISTINCT FROM (old.neighbours)::text)) OR ((old.protects IS NOT NULL) AND (new.protects IS DISTINCT FROM old.protects)) OR ((old.unit IS NOT NULL) AND (new.unit IS DISTINCT FROM old.unit)))) EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: accounts accounts_stay; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_stay BEFORE DELETE OR TRUNCATE ON public.accounts FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: charges charges_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER charges_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.charges FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


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


