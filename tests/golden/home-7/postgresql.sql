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
-- Name: begun; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.begun (
    table_id character varying(36) NOT NULL,
    number bigint NOT NULL,
    body text NOT NULL,
    saved bigint NOT NULL
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
-- Name: drafts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.drafts (
    table_id character varying(36) NOT NULL,
    number bigint NOT NULL,
    body text NOT NULL,
    saved bigint NOT NULL
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

INSERT INTO public.accounts VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 'survey', 'add_remove', 'person', NULL, 1, false, 6, 1e-05, false, true, '\x7073dffbe32150cc9d6df1cfd4eb3b84a371229070ba76dd5b52cb7caf1e4797817ac8d12f70f9685c8fdb1787324d4b2f8d80c2c5ef87974b2c648d', 1795403118);
INSERT INTO public.accounts VALUES ('c52a034f-5240-46ed-a183-054ed40ed82d', 'visits', 'add_remove', 'patient', 'pid', NULL, false, NULL, NULL, false, true, '\x3e94529e1e53fbc3db23695ebfa49488724ba14876c1c8c8d14bd13ad88f80f0d3ea39b130828c832a43e677d22ccad3513d70b9a680080f6f316695', 1795403135);
INSERT INTO public.accounts VALUES ('f34d3c4b-ee4e-472e-997d-be030797a6fe', 'cells', 'one_cell', 'person', NULL, 1, false, NULL, NULL, false, true, '\xd9420c3670377749a7ea97843fb86cdc387040bb1ce6570f643ffc3aed589b41d9f1b25fdb876881cc0dda400057536ed47742f3c7895cc51150e7e1', 1795403145);
INSERT INTO public.accounts VALUES ('37ff5a77-bc55-4c9c-ba02-102f95318e99', 'undescribed', NULL, NULL, NULL, NULL, false, 2, 1e-06, false, true, NULL, 1795403164);
INSERT INTO public.accounts VALUES ('af0bcbd8-47e1-41be-8fbb-899ba1a957eb', 'frozen', 'add_remove', 'patient', 'pid', NULL, false, NULL, NULL, true, true, NULL, 1795403164);


--
-- Data for Name: begun; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.begun VALUES ('777777777777777777777777777777777777', 1, '{"people": "No, new people", "account": "begun"}', 1795403165);


--
-- Data for Name: charges; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 1, 'e6305157-1c8e-4eac-8767-d101715c6067', '92df7327-5ac4-4d97-8ff0-6467e73f7cf3', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403122, '9e52c0e82b83954d85cf286c72a2fe67fad67b7f933b52d67ad3697c0a980966', 'ddd38700cce3388da929c2a07d7f41e956595b66a9e16b71e2ef7c8d91cffcfb');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 2, 'e6305157-1c8e-4eac-8767-d101715c6067', '92df7327-5ac4-4d97-8ff0-6467e73f7cf3', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403125, 'ddd38700cce3388da929c2a07d7f41e956595b66a9e16b71e2ef7c8d91cffcfb', '66377c438b1de39d7b720c22e718095e24c46b9ff194b3ab94e16ea6213b0e43');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 3, 'e6305157-1c8e-4eac-8767-d101715c6067', '92df7327-5ac4-4d97-8ff0-6467e73f7cf3', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', '2f90aefeff98ed6a', 1795403133, '66377c438b1de39d7b720c22e718095e24c46b9ff194b3ab94e16ea6213b0e43', 'ab3231633525683adbe7669d2e85b85243f43dafe30091e66bd07f491c0b1eb7');
INSERT INTO public.charges VALUES ('c52a034f-5240-46ed-a183-054ed40ed82d', 1, 'dd96f71e-4eba-4469-989b-fb736c4bf6fd', 'f040d446-4123-43fd-83aa-321404fd771d', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403138, 'c6b9c376fad57ee5fd3dc027dba29c00dd0749ac5e8ac78525fb7e5b7fb82195', '102936c2e4281c838bab5a323a3e70848756b0e551115321cfcc33c439c7a229');
INSERT INTO public.charges VALUES ('c52a034f-5240-46ed-a183-054ed40ed82d', 2, 'dd96f71e-4eba-4469-989b-fb736c4bf6fd', 'f040d446-4123-43fd-83aa-321404fd771d', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403141, '102936c2e4281c838bab5a323a3e70848756b0e551115321cfcc33c439c7a229', '790fb4d519466b39532dc17a699047f794a4403ef96d0100c0547ef601309dad');
INSERT INTO public.charges VALUES ('c52a034f-5240-46ed-a183-054ed40ed82d', 3, 'dd96f71e-4eba-4469-989b-fb736c4bf6fd', 'f040d446-4123-43fd-83aa-321404fd771d', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', '6d85947eb7f257f9', 1795403143, '790fb4d519466b39532dc17a699047f794a4403ef96d0100c0547ef601309dad', '5936713e589ac9970bd0dddbe68845c944b546836e8c61e9e42a10fffc3de893');
INSERT INTO public.charges VALUES ('f34d3c4b-ee4e-472e-997d-be030797a6fe', 1, '8a9b8603-b3fe-43b7-879b-a01978c89b76', 'a09185c3-9bf7-4adc-8041-4fd5a3276df2', 'reserved', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795403146, '749020f1dcd44670eed09b79f80e33c1b0a8d5f7cdf4f39f68e4343e7d6def48', '54309d927392b334cf38783f1408cf335c54392de8c7564b3c7b7d69df55f69a');
INSERT INTO public.charges VALUES ('f34d3c4b-ee4e-472e-997d-be030797a6fe', 2, '8a9b8603-b3fe-43b7-879b-a01978c89b76', 'a09185c3-9bf7-4adc-8041-4fd5a3276df2', 'spent', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795403149, '54309d927392b334cf38783f1408cf335c54392de8c7564b3c7b7d69df55f69a', '839838a2b748bd3115746dc0efff995c005c84cd4dbeb9155d33e65455829d02');
INSERT INTO public.charges VALUES ('f34d3c4b-ee4e-472e-997d-be030797a6fe', 3, '8a9b8603-b3fe-43b7-879b-a01978c89b76', 'a09185c3-9bf7-4adc-8041-4fd5a3276df2', 'released', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', '17f64f2c59d95f20', 1795403151, '839838a2b748bd3115746dc0efff995c005c84cd4dbeb9155d33e65455829d02', 'aaafc7e0ecf36e3d7b4a8f61bd6d75ff03f2f78779481716ce9fef26f16188d9');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 4, '9058d4ce-cc55-448e-9a4c-2bc36a5ccedc', '510a0c91-cba0-47fc-8a02-aaacdadb0b62', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403156, 'ab3231633525683adbe7669d2e85b85243f43dafe30091e66bd07f491c0b1eb7', '26b964c45ae619273fc9ccfbab8ed1244d38649889f39720a6b9a673fda48f3b');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 5, 'daa291a1-9bfc-47d0-8507-ae4d092015a6', 'edadd36e-26f7-4785-9f62-e9bbbc2876d4', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403157, '26b964c45ae619273fc9ccfbab8ed1244d38649889f39720a6b9a673fda48f3b', '630f894f9204ac4d760403d8731d48e78ae536aaa312f501257431b343bdd101');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 6, 'a676bfba-4fe9-46a9-82da-3c1ec628be4d', '927a8419-16f7-49f4-8d4a-f96d9abe06f9', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403159, '630f894f9204ac4d760403d8731d48e78ae536aaa312f501257431b343bdd101', '0010e781108b3dce6f76876b59acbaca8965eea47d5d851f288bb97e824e2b9a');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 7, '89229bd6-8af4-4a8c-850a-f5a9577eb8a0', 'cc9f45d2-e92c-4e41-9845-f2b1d3c8ee2c', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403160, '0010e781108b3dce6f76876b59acbaca8965eea47d5d851f288bb97e824e2b9a', 'c59e9ae6834c89d1579cc96f3b47a7e777ead1ad08f4fa5df92222d3f6579f7a');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 8, 'be37c4b1-e2ab-4d7c-b674-4a58aaf6eafa', '1402a711-a3a0-4130-b151-1cf1240d17e7', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403162, 'c59e9ae6834c89d1579cc96f3b47a7e777ead1ad08f4fa5df92222d3f6579f7a', '739d0e6a061f97f8dcb053dbe8fb2cfbd8cf6073e88f8f3320107fdb80115d0e');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 9, '27550a06-ceee-4986-8f86-c22e3371973b', '4c3f58e8-19f0-4010-adfd-3c2f9ac98860', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403164, '739d0e6a061f97f8dcb053dbe8fb2cfbd8cf6073e88f8f3320107fdb80115d0e', '5a10c08eca38f843d3a0d3a6a46116511760cab2f224506ce3f7b50d393517a6');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 10, '27550a06-ceee-4986-8f86-c22e3371973b', '4c3f58e8-19f0-4010-adfd-3c2f9ac98860', 'freed', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403164, '5a10c08eca38f843d3a0d3a6a46116511760cab2f224506ce3f7b50d393517a6', '88f166a1dd0d0e8a137b7c370703c54006787d7631f66f6c83f39f9b2279ab33');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 11, 'a676bfba-4fe9-46a9-82da-3c1ec628be4d', '927a8419-16f7-49f4-8d4a-f96d9abe06f9', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403164, '88f166a1dd0d0e8a137b7c370703c54006787d7631f66f6c83f39f9b2279ab33', 'd55170d18b43f70f1d44473d979b39d7fce926b6f931c73c9f91363c7078ac62');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 12, '89229bd6-8af4-4a8c-850a-f5a9577eb8a0', 'cc9f45d2-e92c-4e41-9845-f2b1d3c8ee2c', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403164, 'd55170d18b43f70f1d44473d979b39d7fce926b6f931c73c9f91363c7078ac62', 'c1e7950f22f78e759f92647185d074b6959a80fc1f4d709900f536d14e79e622');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 13, 'be37c4b1-e2ab-4d7c-b674-4a58aaf6eafa', '1402a711-a3a0-4130-b151-1cf1240d17e7', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403164, 'c1e7950f22f78e759f92647185d074b6959a80fc1f4d709900f536d14e79e622', 'dfd94b3d249b5d24cd60633af0462a89e76a2e87496f5b30d71993f047b03e39');
INSERT INTO public.charges VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 14, 'be37c4b1-e2ab-4d7c-b674-4a58aaf6eafa', '1402a711-a3a0-4130-b151-1cf1240d17e7', 'failed-spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795403164, 'dfd94b3d249b5d24cd60633af0462a89e76a2e87496f5b30d71993f047b03e39', '4c5850f92f443360c5fe5f65c57ed07948c8c86d59e297afb54aeb6dab7a3a67');


--
-- Data for Name: decisions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.decisions VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 1, 0, 'cap', '{"delta": 1e-05, "epsilon": 6.0}', 'owner', 1795403118, 'b888df0b76b01a266d426536b23dd7b0b911520417bd2236debc31cba28d689b', '714771358cfcc9ac123ef759f982f39d197c7a7d6a90d1a4034782269da09dea');
INSERT INTO public.decisions VALUES ('2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 2, 0, 'unit', '{"id_column": null, "neighbours": "add_remove", "protects": "person", "rows_per_unit": 1}', '', 1795403122, '714771358cfcc9ac123ef759f982f39d197c7a7d6a90d1a4034782269da09dea', '9e52c0e82b83954d85cf286c72a2fe67fad67b7f933b52d67ad3697c0a980966');
INSERT INTO public.decisions VALUES ('c52a034f-5240-46ed-a183-054ed40ed82d', 1, 0, 'unit', '{"id_column": "pid", "neighbours": "add_remove", "protects": "patient", "rows_per_unit": null}', '', 1795403138, '46149a6616a62dff84e5963fc88f61d33037a3b0405c669fa835b162b84ae070', 'c6b9c376fad57ee5fd3dc027dba29c00dd0749ac5e8ac78525fb7e5b7fb82195');
INSERT INTO public.decisions VALUES ('f34d3c4b-ee4e-472e-997d-be030797a6fe', 1, 0, 'unit', '{"id_column": null, "neighbours": "one_cell", "protects": "person", "rows_per_unit": 1}', '', 1795403146, '7bb14427901c2a0fd66efa4105dc3afb6ad724afc6f384609169fb3182f6503b', '536f1d5b228100c99bde10f3dc4520f782ddcfd92a4a323e76ac93d640fc51c6');
INSERT INTO public.decisions VALUES ('f34d3c4b-ee4e-472e-997d-be030797a6fe', 2, 0, 'cells', '{"change": 1.0, "label": "region", "ranges": [], "run": "a09185c3-9bf7-4adc-8041-4fd5a3276df2"}', '', 1795403146, '536f1d5b228100c99bde10f3dc4520f782ddcfd92a4a323e76ac93d640fc51c6', '749020f1dcd44670eed09b79f80e33c1b0a8d5f7cdf4f39f68e4343e7d6def48');
INSERT INTO public.decisions VALUES ('37ff5a77-bc55-4c9c-ba02-102f95318e99', 1, 0, 'cap', '{"delta": 1e-06, "epsilon": 2.0}', 'owner', 1795403164, '57f232538043d641e6ad736022e9674e1074307d925faa2a968163106eac2cd3', 'e78b84fa19e1da9f6d6fc225a32b425bcd5d7ffd390a5003744e400bc33df119');
INSERT INTO public.decisions VALUES ('af0bcbd8-47e1-41be-8fbb-899ba1a957eb', 1, 0, 'frozen', '{"because": "for the test"}', 'owner', 1795403164, '90f2e26ae8d397ca3093b000560670f3fe5c79f35df28cc628a19088394013dc', 'e2ff651a1f9de3f11722bd01dd0c25c21031e1894760cb255bec6530da9a292e');


--
-- Data for Name: drafts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.drafts VALUES ('42f6049a-1e9b-4e83-955d-11ae25d84e46', 2, '{"account": "survey", "protects": "person", "epsilon": 1.0, "columns": {"age": {"role": "number", "low": "0", "high": "100", "step": "1", "missing": true}, "region": {"role": ""}}}', 1795403165);


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.events VALUES (1, 'cap', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', NULL, NULL, 'owner', '{}', 1795403118);
INSERT INTO public.events VALUES (2, 'owner-view', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', '92df7327-5ac4-4d97-8ff0-6467e73f7cf3', NULL, 'owner', '{"what": "report"}', 1795403133);
INSERT INTO public.events VALUES (3, 'same-table', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', NULL, '2b940eef-5cba-42da-93fb-03139e0ce7e0', '', '{}', 1795403135);
INSERT INTO public.events VALUES (4, 'same-table', 'c52a034f-5240-46ed-a183-054ed40ed82d', NULL, '2b940eef-5cba-42da-93fb-03139e0ce7e0', '', '{}', 1795403135);
INSERT INTO public.events VALUES (5, 'table-deleted', 'c52a034f-5240-46ed-a183-054ed40ed82d', NULL, '2b940eef-5cba-42da-93fb-03139e0ce7e0', 'owner', '{}', 1795403143);
INSERT INTO public.events VALUES (6, 'same-table', 'c52a034f-5240-46ed-a183-054ed40ed82d', NULL, '8a8d14e9-b089-4608-ba46-b5d567152fae', '', '{}', 1795403145);
INSERT INTO public.events VALUES (7, 'same-table', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', NULL, '8a8d14e9-b089-4608-ba46-b5d567152fae', '', '{}', 1795403145);
INSERT INTO public.events VALUES (8, 'same-table', 'f34d3c4b-ee4e-472e-997d-be030797a6fe', NULL, '8a8d14e9-b089-4608-ba46-b5d567152fae', '', '{}', 1795403145);
INSERT INTO public.events VALUES (9, 'table-deleted', 'f34d3c4b-ee4e-472e-997d-be030797a6fe', NULL, '8a8d14e9-b089-4608-ba46-b5d567152fae', 'owner', '{}', 1795403151);
INSERT INTO public.events VALUES (10, 'owner-view', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', NULL, NULL, 'owner', '{"what": "kinds of columns"}', 1795403152);
INSERT INTO public.events VALUES (11, 'cap', '37ff5a77-bc55-4c9c-ba02-102f95318e99', NULL, NULL, 'owner', '{}', 1795403164);
INSERT INTO public.events VALUES (12, 'frozen', 'af0bcbd8-47e1-41be-8fbb-899ba1a957eb', NULL, NULL, 'owner', '{"because": "for the test"}', 1795403164);


--
-- Data for Name: hermitage_commits; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hermitage_commits VALUES ('96a3c99938da4f1eae7f9655ad3e0110', 6, '2026-11-23 03:05:18.938263+00');
INSERT INTO public.hermitage_commits VALUES ('229da17774e0485a92c3b124b4eccb3f', 18, '2026-11-23 03:05:51.153884+00');
INSERT INTO public.hermitage_commits VALUES ('46f5f822a24047879251340bedf98960', 12, '2026-11-23 03:05:51.164133+00');
INSERT INTO public.hermitage_commits VALUES ('f9dad8ed64a44fecb4126b37a36c0fd3', 15, '2026-11-23 03:05:33.868388+00');
INSERT INTO public.hermitage_commits VALUES ('30774687cf384666a29502383aa56b92', 18, '2026-11-23 03:05:33.921398+00');
INSERT INTO public.hermitage_commits VALUES ('1068f5ad358749b994d2c93e9aae0878', 35, '2026-11-23 03:06:04.555347+00');
INSERT INTO public.hermitage_commits VALUES ('3336b671cd9049ad932ecc91d6a05f36', 14, '2026-11-23 03:05:43.407406+00');
INSERT INTO public.hermitage_commits VALUES ('5d1bac7416364387a152357762ad8bd6', 16, '2026-11-23 03:05:43.422173+00');
INSERT INTO public.hermitage_commits VALUES ('66f13ac0a5734a4a867931d2938c8036', 17, '2026-11-23 03:06:04.777555+00');
INSERT INTO public.hermitage_commits VALUES ('b8cb73220ede4d60972890987e963d72', 12, '2026-11-23 03:06:05.47727+00');
INSERT INTO public.hermitage_commits VALUES ('6ee16b29b9224bbb954bbda65e5fbf61', 3, '2026-11-23 03:06:05.512001+00');
INSERT INTO public.hermitage_commits VALUES ('f9375ff4109544798e6643e4b6c6d204', 2, '2026-11-23 03:06:05.548997+00');


--
-- Data for Name: releases; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.releases VALUES ('1a16880d-7297-425e-9887-10ea58a66034', '92df7327-5ac4-4d97-8ff0-6467e73f7cf3', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', '2f90aefeff98ed6a', '2f90aefeff98ed6a06230a341ba5a1d32f1203f17a8f33e19fe31a1f9feb7005', '{"1": "run from the command line or Python"}', 'owner', 1795403133);
INSERT INTO public.releases VALUES ('749f2110-52e2-4073-9c55-07a71123e0ac', 'f040d446-4123-43fd-83aa-321404fd771d', 'c52a034f-5240-46ed-a183-054ed40ed82d', '6d85947eb7f257f9', '6d85947eb7f257f9b438f0b093dae799ab60ed597ee09ce17f1383f84f74f326', '{"1": "run from the command line or Python"}', 'owner', 1795403143);
INSERT INTO public.releases VALUES ('dc51fb6c-5ba3-4f77-ae76-c97c523c70ef', 'a09185c3-9bf7-4adc-8041-4fd5a3276df2', 'f34d3c4b-ee4e-472e-997d-be030797a6fe', '17f64f2c59d95f20', '17f64f2c59d95f20d8b2047e8200199269937e1e8745ce4177701eeaea43b8a3', '{"1": "run from the command line or Python"}', 'owner', 1795403151);


--
-- Data for Name: runs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.runs VALUES ('92df7327-5ac4-4d97-8ff0-6467e73f7cf3', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', '42f6049a-1e9b-4e83-955d-11ae25d84e46', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'cpu');
INSERT INTO public.runs VALUES ('f040d446-4123-43fd-83aa-321404fd771d', 'c52a034f-5240-46ed-a183-054ed40ed82d', '2b940eef-5cba-42da-93fb-03139e0ce7e0', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "visits", "unit": {"protects": "patient", "rows_per_unit": 4, "id_column": "pid"}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "identifier"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'cpu');
INSERT INTO public.runs VALUES ('a09185c3-9bf7-4adc-8041-4fd5a3276df2', 'f34d3c4b-ee4e-472e-997d-be030797a6fe', '8a8d14e9-b089-4608-ba46-b5d567152fae', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "cells", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-05}, "holdout": 0.0, "generator": {"name": "kahm", "options": {"mode": "cell", "n": 2}}, "rows": 60, "label": "region", "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}, "protection": "cell", "cell_change": 1.0}', 'cpu');
INSERT INTO public.runs VALUES ('510a0c91-cba0-47fc-8a02-aaacdadb0b62', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', '42f6049a-1e9b-4e83-955d-11ae25d84e46', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('edadd36e-26f7-4785-9f62-e9bbbc2876d4', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', '42f6049a-1e9b-4e83-955d-11ae25d84e46', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('927a8419-16f7-49f4-8d4a-f96d9abe06f9', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', '42f6049a-1e9b-4e83-955d-11ae25d84e46', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('cc9f45d2-e92c-4e41-9845-f2b1d3c8ee2c', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', '42f6049a-1e9b-4e83-955d-11ae25d84e46', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('1402a711-a3a0-4130-b151-1cf1240d17e7', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', '42f6049a-1e9b-4e83-955d-11ae25d84e46', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('4c3f58e8-19f0-4010-adfd-3c2f9ac98860', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', '42f6049a-1e9b-4e83-955d-11ae25d84e46', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);


--
-- Data for Name: store_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_version VALUES (7, NULL);


--
-- Data for Name: tables; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tables VALUES ('42f6049a-1e9b-4e83-955d-11ae25d84e46', '2f3be6b5-eefd-4a58-83ac-3d7dcd28263c', 'visits.csv', 'table', 2593, 'stored', '8b111ac0ece7909423575859bb830f7b08d092ba84a908281ee64d24441ecc97', 5395403120, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795403120, NULL);
INSERT INTO public.tables VALUES ('2b940eef-5cba-42da-93fb-03139e0ce7e0', 'c52a034f-5240-46ed-a183-054ed40ed82d', 'visits.csv', 'table', 2593, 'deleted', '8b111ac0ece7909423575859bb830f7b08d092ba84a908281ee64d24441ecc97', 5395403135, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795403135, 1795403143);
INSERT INTO public.tables VALUES ('8a8d14e9-b089-4608-ba46-b5d567152fae', 'f34d3c4b-ee4e-472e-997d-be030797a6fe', 'visits.csv', 'table', 2593, 'deleted', '8b111ac0ece7909423575859bb830f7b08d092ba84a908281ee64d24441ecc97', 5395403145, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795403145, 1795403151);


--
-- Data for Name: work; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.work VALUES ('f040d446-4123-43fd-83aa-321404fd771d', 'run', 'f040d446-4123-43fd-83aa-321404fd771d', NULL, 'owner', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1041, 3.548948665330764e+15, true, 1, 1795403143, NULL, 1795403137, 1795403138, 1795403143);
INSERT INTO public.work VALUES ('1402a711-a3a0-4130-b151-1cf1240d17e7', 'run', '1402a711-a3a0-4130-b151-1cf1240d17e7', NULL, 'owner', 'failed', '', 0, 0, '[]', 'The worker stopped without a word.', NULL, NULL, 0, 1, 4, 'a machine of before', 1, 1, true, 1, 1795403164, NULL, 1795403162, 1795403164, 1795403164);
INSERT INTO public.work VALUES ('c5546761-2a23-4469-8b62-cd940d0d9085', 'rehearsal', '0000000000000000000000000000000000000000000000000000000000000000', '"what was asked"', 'owner', 'running', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795403164, NULL, 1795403164, 1795403164, NULL);
INSERT INTO public.work VALUES ('8d303d94-b2a7-48a9-b2f4-a5ecffdd1004', 'grid', '1111111111111111111111111111111111111111111111111111111111111111', '"what was asked"', 'owner', 'failed', '', 0, 0, '[]', 'The worker stopped without a word.', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795403165, NULL, 1795403165, 1795403165, 1795403165);
INSERT INTO public.work VALUES ('83361488-30f1-45b7-bd21-09ffde2a68cc', 'report', '92df7327-5ac4-4d97-8ff0-6467e73f7cf3 predictions', '"what was asked"', 'owner', 'reported', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795403165, NULL, 1795403165, 1795403165, 1795403165);
INSERT INTO public.work VALUES ('92df7327-5ac4-4d97-8ff0-6467e73f7cf3', 'run', '92df7327-5ac4-4d97-8ff0-6467e73f7cf3', NULL, 'owner', 'released', 'Reporting to the owner', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1041, 3.548948665330764e+15, true, 1, 1795403128, NULL, 1795403122, 1795403122, 1795403133);
INSERT INTO public.work VALUES ('a09185c3-9bf7-4adc-8041-4fd5a3276df2', 'run', 'a09185c3-9bf7-4adc-8041-4fd5a3276df2', NULL, 'owner', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1041, 3.548948665330764e+15, true, 1, 1795403150, NULL, 1795403146, 1795403146, 1795403151);
INSERT INTO public.work VALUES ('510a0c91-cba0-47fc-8a02-aaacdadb0b62', 'run', '510a0c91-cba0-47fc-8a02-aaacdadb0b62', NULL, 'owner', 'planned', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, 0, NULL, NULL, 1795403156, NULL, NULL);
INSERT INTO public.work VALUES ('4c3f58e8-19f0-4010-adfd-3c2f9ac98860', 'run', '4c3f58e8-19f0-4010-adfd-3c2f9ac98860', NULL, 'owner', 'cancelled', '', 0, 0, '[]', 'The run was cancelled before it began. Its budget never became spent, so it was freed.', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, 0, NULL, NULL, 1795403164, NULL, 1795403164);
INSERT INTO public.work VALUES ('edadd36e-26f7-4785-9f62-e9bbbc2876d4', 'run', 'edadd36e-26f7-4785-9f62-e9bbbc2876d4', NULL, 'owner', 'queued', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 1, NULL, NULL, NULL, false, 0, NULL, NULL, 1795403157, NULL, NULL);
INSERT INTO public.work VALUES ('927a8419-16f7-49f4-8d4a-f96d9abe06f9', 'run', '927a8419-16f7-49f4-8d4a-f96d9abe06f9', NULL, 'owner', 'running', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 2, 'a machine of before', 1, 1, true, 1, 1795403164, NULL, 1795403159, 1795403164, NULL);
INSERT INTO public.work VALUES ('cc9f45d2-e92c-4e41-9845-f2b1d3c8ee2c', 'run', 'cc9f45d2-e92c-4e41-9845-f2b1d3c8ee2c', NULL, 'owner', 'measured', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 3, 'a machine of before', 1, 1, true, 1, 1795403164, NULL, 1795403160, 1795403164, NULL);
INSERT INTO public.work VALUES ('6b63311c-3e03-46f2-8c1e-c4f61a6a8f22', 'report', '92df7327-5ac4-4d97-8ff0-6467e73f7cf3 shadow-models', '"what was asked"', 'owner', 'cancelled', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795403165, NULL, 1795403165, 1795403165, 1795403165);


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
-- Name: begun begun_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.begun
    ADD CONSTRAINT begun_pkey PRIMARY KEY (table_id);


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
-- Name: drafts drafts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.drafts
    ADD CONSTRAINT drafts_pkey PRIMARY KEY (table_id);


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
-- Name: drafts drafts_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.drafts
    ADD CONSTRAINT drafts_table_id_fkey FOREIGN KEY (table_id) REFERENCES public.tables(id);


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


